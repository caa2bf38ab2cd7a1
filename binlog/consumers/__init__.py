"""Consumer groups: each message of a log goes to one of a group's members, until one of them has acknowledged it.

Begin with `state`: it applies the operations of a group's log, in order, and thereby decides who gets which message.
Every process applies the same operations and has the same state, so no process has to ask another.
"""
