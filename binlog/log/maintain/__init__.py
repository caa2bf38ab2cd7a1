"""Operations on a whole log: check, repair, prune, stat and backup.

Each operation is one function and needs no open writer; writers and readers may run meanwhile.  `repair` uses
`file_repair` for damage in a file and `gap_repair` for missing files.
"""
