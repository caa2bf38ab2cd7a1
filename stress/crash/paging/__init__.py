"""A queue over pages (`binlog.paging`), and pages that are depaged into a journal, broken as a log is.

The parts `paging-power`, `paging-kill`, `paging-faults`, `depage-power` and `depage-faults`.  Marks are those of
`stress.paging`, which kills queues at random moments; here power is cut at every moment of recorded runs, and processes
die, or calls fail, at each of their calls.
"""
