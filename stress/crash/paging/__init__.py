"""A queue over pages (`binlog.paging`), broken as a log is: the parts `paging-power` and `paging-kill`.

Marks are those of `stress.paging`, which kills queues at random moments; here power is cut at every moment of recorded
runs, and processes die at each of their calls.
"""
