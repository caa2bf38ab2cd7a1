"""Sealing: one process adds the durable records of a log to its tree, and signs the root.

`sealer` does it, and `elected` is a sealer in a writer's process; `seal_clock` gives the signed times; `scrubbing`
compares old records again and again; `anchoring` hands checkpoints to the anchors.  `operating` has the decisions of an
operator, and `losses` finds lost records.
"""
