"""Checking a store: the log, the consume queues, the key index, and the state files."""
