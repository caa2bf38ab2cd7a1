"""Appending to a log: sessions, the open file, the background thread, idempotent producers.

A `session` belongs to a writer in one process.  It takes the open file from `open_file` and appends through
`writable_file`, which commits groups of records in C (native/log/group.c).
"""
