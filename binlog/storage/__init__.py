"""The system calls of the engines, and the parts that several engines share.

Files and directories, locks, forks, waiting, shared memory and mapped files are here, as are the parts that each engine
needs and that make no engine: the handle with its guard, worker threads, redelivery.  `native` has the compiled
functions.  Only `commit_file` and `staging_area` know an engine's bytes: they make the system calls of the log's
commits.
"""
