"""Loading a journal: recognition of its layout, detection of damage, and the state of each record.

`loading` runs the others and fills the ledger of the open journal.  `record_states` is the only implementation of
what became of a record; inspection and Spark use it too.
"""
