"""A randomised crash model of the commit protocol.

Files, shared memory, processes and boots are simulated; the recovery table, the note rule and the header packing are
the product's own.  `python -m stress.model --help` explains how to run it, docs/testing.md its purpose.
"""
