"""Paging: an address that outgrows memory goes to files of messages, and comes back from there.

After the paging of JBoss Messaging: a manager has a store for each address, and each store has pages.
"""

from binlog.format.paging.page_file import PageLayout
from binlog.format.paging.page_record import PageMessage
from binlog.paging.cursor.cursor import PageCursor, Run
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
from binlog.paging.store import PagingStore
from binlog.paging.transaction_store import Stored, TransactionStore

__all__ = [
    "AddressLook",
    "Held",
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
    "Run",
    "Stored",
    "TransactionStore",
    "check_paging",
    "look_at_paging",
    "read_given",
    "read_pages",
]
