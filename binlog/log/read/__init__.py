"""Reading a log: the cursor, the reader of one file, starting positions, and ranges of a file.

`start` finds the first record.  `cursor` reads from there, one `file_reader` after another, and waits at the end of
the log; its `ready` lists everything that a waiting reader waits for.  `range_reader` and `ranges` are for tasks that
read parts of files in parallel.  `batch_times` reads the times of a whole batch at once.
"""
