"""Waiting: the doorbell, its use by event loops and greenlets, and worker threads."""
