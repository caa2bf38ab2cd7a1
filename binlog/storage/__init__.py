"""The system calls of the engines, and the parts that several engines share.

Files and directories, locks, forks, waiting, shared memory and mapped files are here, as are the parts that each engine
needs and that make no engine: the handle with its guard, worker threads, redelivery.  `native` has the compiled
functions.  Nothing here knows the meaning of an engine's bytes, but `group_commit` and `staging_area`, which serve the
log: they are the two halves of its commit that make system calls.
"""
