"""Paging: an address that outgrows memory goes to files of messages, and comes back from there.

After the paging of JBoss Messaging: a manager has a store for each address, and each store has pages.  A queue uses
one address.
"""

from binlog.format.paging.page_file import PageLayout
from binlog.format.paging.page_record import PageMessage
from binlog.paging.cursor import PageCursor, Run
from binlog.paging.inspection import (
    AddressLook,
    PageLook,
    PagingLook,
    check_paging,
    look_at_paging,
    read_given,
    read_pages,
)
from binlog.paging.manager import PagingManager
from binlog.paging.memory import Held
from binlog.paging.options import PagingOptions, Policy
from binlog.paging.page import Page
from binlog.paging.page_transaction import PageTransaction
from binlog.paging.queue import ADDRESS as QUEUE_ADDRESS
from binlog.paging.queue import DEAD_ADDRESS, Queue
from binlog.paging.queue_memory import Message
from binlog.paging.queue_transaction import QueueTransaction
from binlog.paging.store import PagingStore
from binlog.paging.transaction_store import Stored, TransactionStore

__all__ = [
    "DEAD_ADDRESS",
    "QUEUE_ADDRESS",
    "AddressLook",
    "Held",
    "Message",
    "Page",
    "PageCursor",
    "PageLayout",
    "PageLook",
    "PageMessage",
    "PageTransaction",
    "PagingLook",
    "PagingManager",
    "PagingOptions",
    "PagingStore",
    "Policy",
    "Queue",
    "QueueTransaction",
    "Run",
    "Stored",
    "TransactionStore",
    "check_paging",
    "look_at_paging",
    "read_given",
    "read_pages",
]
