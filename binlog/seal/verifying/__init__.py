"""Verification: compares a log with its seal, and names each difference.

`report` has the findings; `verification` reads the signed notes, and decides which records must exist; `comparison`
compares them, and `index_times` compares the times in the indexes with the signed ones.  `progress` keeps how far a log
was verified.
"""
