"""Appending to a log: sessions, the open file, the threads of a writer, batches, idempotent producers.

A `session` belongs to a writer in one process.  It takes the open file from `open_file` and appends through
`writable_file`, which commits groups of records in C (native/log/group.c).  `background` flushes and syncs records that
no caller waits for, and `leading_thread` leads for callers that wait only for a limited time.
"""
