"""Proving by crashing that nothing acknowledged is lost: `python -m stress.crash`, `make crash`.

The command (`__main__`) compiles a recorder (`recorder/`, preloaded into every process), starts workers (`crew`,
`worker`), and reports (`report`).  A worker runs the parts in turn:

- `power`: runs a workload (`workloads`) under the recorder (`recording`, `trace`), enumerates what a power cut may
  leave of it (`disk`, `states`), and judges each such state (`judge`) by what had been acknowledged (`expectation`).
- `kill`: ends processes at each of their system calls (`striker/`, preloaded too; `kill`, `kill_scenarios`, `leader`)
  and in storms (`storm`), and judges the log by what they had been told (`mortal`, `ledger`, `aftermath`).
- `faults`: has their system calls fail or be short (`faults`, `fault_scenarios`), and takes from the disk what a failed
  sync was to cover (`lost`).
- `damage`: changes the bytes of sound logs.
- `store-power`, `store-kill`, `store-faults`: the same for a store of messages (`store/`).  What the power part knows
  of what it breaks is a `subject`: `log_subject` is a log's, `store/subject` a store's.

`planted` holds the mistakes that the harness must find, `replay` looks at one kept violation again.
"""
