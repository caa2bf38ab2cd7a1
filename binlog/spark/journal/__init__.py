"""The engine `journal` of the data source: each row is a record in a journal's file, with its state.

`engine` names the columns and options.  The driver divides a read into tasks with `partitions`; `reading` runs in the
tasks and builds `columns`.
"""
