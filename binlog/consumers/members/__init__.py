"""A member of a group: a process that takes messages.

`member` gets items and ends them.  It has a seat by `membership`, keeps the items that it has in `own_items`, reads
messages through `message_source`, and appends those that are given up to `letter_log`.
"""
