"""The state of a group, and the log of operations that it follows from.

Begin with `group_state`: it applies the operations of a group's log, in their order, and that decides which member gets
a message.  `state_reader` reads them, and the checkpoints from which a process begins; `group_log` appends them.
`clock` is group time, and `settings` are those of a group.
"""
