"""Opening a store: reading the state that it was left in, refusing unknown features, and recovery.

`survey` reads the whole folder before anything changes.  `recovery` then finds the end of the log and cuts the queues
and the key index to it.
"""
