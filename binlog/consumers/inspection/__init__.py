"""A consumer group as an operator sees it: what happened, what its items and dead letters are, and whether it is whole.

`stat` reads the state of a group, and `peek` the messages of its items without taking them.  `replay` reads the
operations of a group's log from its oldest file on: `history` makes events of them, and the state at a time, and
`check` verifies them against each other, the messages and the dead letters.  `letters` reads the dead letters, and
removes old ones; nothing else here writes anything, and nothing has a seat.
"""
