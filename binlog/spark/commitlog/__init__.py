"""The engine `commitlog` of the data source: each row is a message of a commit log.

`engine` names the columns and options.  The driver divides a read into tasks with `partitions`; `reading` runs in the
tasks and builds `columns`.
"""
