"""Recovery of a log file after a crash: the decision table, its evidence, and carrying it out.

The next writer takes the lock, collects `evidence` of the file's bytes, asks `recovery_table` for the verdict and
carries it out in `recovery`.  If only the leader of a group died, `dead_leader` resolves that group first.
"""
