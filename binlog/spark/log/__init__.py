"""The engine `log` of the data source: each row is a record of a log.

`engine` names the columns and options.  The driver takes a `snapshot` of the log and divides it into tasks with
`partitions`; `reading` runs in the tasks.  `following` does the same for a stream, batch by batch.
"""
