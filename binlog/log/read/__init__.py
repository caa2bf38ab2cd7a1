"""How records are read: the cursor, one file at a time, where to start, and ranges of a file."""
