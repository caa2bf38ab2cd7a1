"""Crash tests of every engine: `python -m stress.crash`, or `make crash`.

The command (`__main__`) compiles the two preloaded libraries, starts worker processes (`worker_pool`, `worker`) and
prints a report (`report`).  Each worker runs the parts (`parts`) in slices.  A part is one failure mode applied to one
system, and knows the system only as a `system.System`:

- `power`: runs a workload under the recorder (`recorder/`, `recording`, `trace`), enumerates the states that a power
  cut may leave (`disk`, `states`), and checks each of them against the promises made until then.
- `kill`: kills processes at each of their system calls (`injector/`), and at random moments in storms (`storm`).
- `faults`: makes system calls fail or return short (`fault`), and cuts the power on a disk that lacks the data of a
  failed sync (`lossy_disk`).
- `damage`: changes bytes of intact logs.

A system (`systems/`) defines how an engine is opened, the steps of its processes, the marks that they make before and
after each call (`marks`: in the trace, or in a ledger that survives the process), and how to compare the state after a
crash with those marks.

`seeded_bugs` holds the bugs that the harness must find.  `replay` runs one saved violation again.  `flips` is a
separate command that flips every bit.
"""
