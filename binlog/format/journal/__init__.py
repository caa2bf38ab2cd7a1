"""The format of a journal: headers of files, records, and names of files."""
