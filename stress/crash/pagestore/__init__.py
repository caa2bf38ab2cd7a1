"""A page store (`binlog.pagestore`), broken as a log is: the parts `pagestore-power` and `pagestore-kill`.

Marks are those of `stress.paging`: TX_PUT and TX_ACK name what a transaction puts and removes; PUTS_SYNCED promises all
that was done before; GOT names what a process found when it had opened the store, and OPENED says that this was all.
"""
