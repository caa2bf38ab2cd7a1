"""Waiting and waking: the doorbell, event loops and greenlets, and worker threads."""
