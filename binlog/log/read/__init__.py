"""Reading a log: the cursor, the reader of one file, starting positions, and ranges of a file."""
