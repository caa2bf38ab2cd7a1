"""The format of a journal: headers of files, records, and names of files.

There are three layouts: native, which stores records in `block`s, and two of JBoss Messaging.  `record` encodes and
decodes all three; `compiled` does the same for many records in C.
"""
