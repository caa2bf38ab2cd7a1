"""Recovering a log file after a crash: the decision table, the evidence it takes, and carrying it out."""
