"""The journal: records that are added, updated and deleted by their ids, one by one or in transactions.

Its files are used again and again, as those of JBoss Messaging's circular journal.
"""
