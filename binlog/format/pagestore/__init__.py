"""The file formats of a page store: pages, indexes, the transaction log, and the smaller files.

A page has SwiftMQ's layout.  A record of the `log` has the changes of one transaction to pages; recovery applies it
again.
"""
