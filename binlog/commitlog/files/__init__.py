"""Mapped files, the queue of them in a folder, and the pool of buffers in shared memory."""
