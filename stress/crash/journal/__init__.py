"""A journal (`binlog.journal`), broken in the same ways as a log: the parts `journal-power`, `journal-kill`,
`journal-faults`.

Whoever appends (`actor`) marks each call before it is made, and what it was promised after (`marks`); what a load then
tells must be what these come to (`expectation`).
"""
