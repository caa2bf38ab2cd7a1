"""Paging: an address that outgrows memory goes to files of messages, and comes back from there.

After the paging of JBoss Messaging: a manager has a store for each address, and each store has pages.
"""
