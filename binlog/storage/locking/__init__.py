"""Locks: the file lock that decides, and the directory lock of an engine."""
