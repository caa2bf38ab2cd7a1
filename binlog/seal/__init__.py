"""The seal of a log: a hash tree over its records, whose root is signed each second.

A sealed log shows when it was cut or changed, to each person who knows the public key and one later checkpoint.
"""
