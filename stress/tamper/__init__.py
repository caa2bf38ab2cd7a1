"""Tampering: changes sealed logs in many ways that `binlog check` does not notice, and shows that `verify` finds each.

`sealed_log` makes a sealed log, and makes it again from other records so that all checksums fit; `changes` has the
changes, and the rules by which they must be found.
"""
