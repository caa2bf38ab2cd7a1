"""Recovery of a log file after a crash: the decision table, its evidence, and carrying it out."""
