"""A randomised crash model of the commit protocol.

Simulated files, shared memory, processes and boots; the product's own recovery table, note rule and header packing.
`python -m stress.model --help` says how to run it; docs/testing.md what it is for.
"""
