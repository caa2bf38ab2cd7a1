"""Paging: an address that outgrows memory goes to files of messages, and comes back from there.

After the paging of JBoss Messaging: a manager has a store for each address, and each store has pages.  A queue uses
one address.
"""

from binlog.paging.inspection import AddressLook, PageLook, PagingLook, check_paging, look_at_paging, read_pages
from binlog.paging.options import PagingOptions, Policy
from binlog.paging.queue import Message, Queue
from binlog.paging.queue_transaction import QueueTransaction

__all__ = [
    "AddressLook",
    "Message",
    "PageLook",
    "PagingLook",
    "PagingOptions",
    "Policy",
    "Queue",
    "QueueTransaction",
    "check_paging",
    "look_at_paging",
    "read_pages",
]
