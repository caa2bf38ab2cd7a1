"""Consumer groups: each message of a log goes to one of a group's members, until one of them has acknowledged it.

Begin with `state`: it applies the operations of a group's log, in order, and that decides which member gets a message.
Every process applies the same operations and has the same state, so no process has to ask another.

`group` is the public object.  Its `member` appends operations through `group_log`, reads messages through
`message_source`, and has a seat (`seats`) that the kernel frees when the process dies; a thread (`watcher`) notices the
deaths of others.  An idle member sleeps in `waiting`.
"""
