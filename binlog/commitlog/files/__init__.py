"""Mapped files, the queue of them in a folder, and the pool of buffers in shared memory.

The commit log and each consume queue is a `mapped_file_queue`, whose owner writes through `mapped_file`.  Other
processes read the same files with `files_reader`.
"""
