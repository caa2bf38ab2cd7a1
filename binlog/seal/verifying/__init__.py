"""Verification: compares a log with its seal, and names each difference.

`report` has the findings; `verification` reads the signed notes, and decides what the log must have; `comparison`
compares the records; `index_times` compares the times in the indexes with the signed ones.
"""
