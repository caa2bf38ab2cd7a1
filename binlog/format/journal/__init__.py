"""The bytes of a journal: its files' headers, its records, and the names of its files."""
