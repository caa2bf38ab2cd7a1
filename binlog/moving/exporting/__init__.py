"""Exporting: records of a log, in a file of another format.

`rows` makes rows of records, with the fields of events; `text_files` and `tables` write rows, and
`unfinished_file` gives the file its name when it is complete.  `exporting` puts them together.
"""
