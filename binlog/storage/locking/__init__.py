"""Locks: the lock over a log file, and the lock of an engine's directory."""
