"""The index of a log file: reading, building and checking it, and verifying records with it.

An index has an entry for each range of records, usually of 64 KiB, with the checksum of the range.  `index_building`
writes the entries; `verification` compares records with them before a reader returns the records.
"""
