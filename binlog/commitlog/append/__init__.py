"""Appending messages to the commit log, and flushing them to the disk.

`commit_log` encodes a message, appends it to the last mapped file and tells the flush services.  In sync mode the
caller waits for the service's sync; in async mode it does not.
"""
