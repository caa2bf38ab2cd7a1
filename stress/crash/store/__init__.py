"""A store of messages (`binlog.commitlog`), broken in the same ways as a log: the parts `store-power`, `store-kill`,
`store-faults`.

What a store must be after that is looked at in `inspection`; `messages` says what is appended, so that each message
tells which it is.
"""
