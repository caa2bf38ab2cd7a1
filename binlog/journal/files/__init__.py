"""The files of a journal: their listing, their reuse, and the quarantine for damaged ones.

`journal_files` is the list that an open journal appends to; `listing` gives the same files to other processes.
"""
