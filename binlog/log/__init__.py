"""The binary log: many processes append to a directory of files, follow it, and cut over to the next file.

Begin with `writer` and `reader`, which programs use.  A writer's work is in `append`, a reader's in `read`.  Both use
`files`, `index` and `archive`.  `recovery` runs if the last writer died; `ingest` adds whole files; `maintain`
checks, repairs, prunes and copies a log.
"""
