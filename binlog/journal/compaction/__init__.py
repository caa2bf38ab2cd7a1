"""Compaction: rewrites live records of mostly dead files, and the maintenance thread that runs it.

`maintenance` asks `plan` for files that can be rewritten together.  `compactor` copies their `live_records` to
`output_files`, notes the renames in the `control_file`, and replaces the old files.
"""
