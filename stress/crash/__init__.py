"""Proving by crashing that nothing acknowledged is lost: `python -m stress.crash`, `make crash`.

The command (`__main__`) compiles a recorder (`recorder/`, preloaded into every process), starts workers (`crew`,
`worker`), and reports (`report`).  A worker runs the parts in turn:

- `power`: runs a workload (`workloads`) under the recorder (`recording`, `trace`), enumerates what a power cut may
  leave of it (`disk`, `states`), and judges each such state (`judge`) by what had been acknowledged (`expectation`).
- `damage`: changes the bytes of sound logs.

`planted` holds the mistakes that the harness must find, `replay` looks at one kept violation again.
"""
