"""Importing: the records of a file or a pipe, appended to a log.

`input_reader` hands out lines and keeps the place in the file.  `text_forms` and `journal_entries` make records of
them.  `known_files` recognises a file that was imported before, and stores its place; `importing` puts them together.
"""
