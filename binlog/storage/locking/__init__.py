"""Locks: the lock over a log file, and the lock of an engine's directory.

The kernel releases every lock when the process that holds it dies.
"""
