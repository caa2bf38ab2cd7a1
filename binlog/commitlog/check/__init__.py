"""Checking a store: the log, the consume queues, the key index, and the state files.

`check` runs the others in order.  It changes nothing, and it can run while another process writes to the store.
"""
