"""Which members are alive, and which of them sleep: seats, the thread that notices deaths, and waking.

A member has a seat (`seats`), which the kernel frees when the process dies; a thread of each other process (`watcher`)
notices that, and records it.  An idle member sleeps in `waiting`, on a word in the file of `wakeups`.
"""
