"""A randomised crash model of consumer groups.

Logs, seats and clocks are simulated; the state of a group, its log and its members are the product's own code.  Members
die at any step, the power fails, and other members act in between.  `python -m stress.group_model --help` explains how
to run it, docs/testing.md its purpose.
"""
