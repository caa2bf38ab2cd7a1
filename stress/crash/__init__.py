"""Proving by crashing that nothing acknowledged is lost: `python -m stress.crash`, `make crash`.

The command (`__main__`) compiles a recorder (`recorder/`, preloaded into every process), starts workers (`crew`,
`worker`), and reports (`report`).  A worker runs the parts in turn (`parts`): each way to break something, of each
system.  The ways know nothing of what they break but `system.System`:

- `power`: runs a workload under the recorder (`recording`, `trace`), enumerates what a power cut may leave of it
  (`disk`, `states`), and judges each such state by what had been promised.
- `kill`: ends processes at each of their system calls (`striker/`, preloaded too), and in storms (`storm`).
- `faults`: has their system calls fail or be short (`fault`), and takes from the disk what a failed sync was to cover
  (`lost`).
- `damage`: changes the bytes of sound logs.

A system (`systems/`) says how it is opened, which steps its processes take, what they mark before and after each call
(`marks`: in the trace, or in a ledger that survives them), what is observed when it is opened after a crash, and what
is wrong with that by the marks.

`planted` holds the mistakes that the harness must find, `replay` looks at one kept violation again; `flips` is a
command of its own, which goes through every bit.
"""
