"""Paging: if the messages of an address do not fit in memory, they go to files, and are read back later.

Modelled on the paging of JBoss Messaging: a manager has a store for each address, and each store has pages.
"""

from binlog.format.paging.page_file import PageLayout
from binlog.format.paging.page_record import PageMessage
from binlog.paging.cursor.cursor import PageCursor, Run
from binlog.paging.inspection import (
    AddressStat,
    PageStat,
    PagingStat,
    check_paging,
    read_delivery_counts,
    read_pages,
    stat_paging,
)
from binlog.paging.manager import PagingManager
from binlog.paging.memory import HeldMessage
from binlog.paging.options import PagingOptions, Policy
from binlog.paging.page import Page
from binlog.paging.page_transaction import PageTransaction
from binlog.paging.store import PagingStore
from binlog.paging.transaction_store import StoreContents, TransactionStore

__all__ = [
    "AddressStat",
    "HeldMessage",
    "Page",
    "PageCursor",
    "PageLayout",
    "PageStat",
    "PageMessage",
    "PageTransaction",
    "PagingStat",
    "PagingManager",
    "PagingOptions",
    "PagingStore",
    "Policy",
    "Run",
    "StoreContents",
    "TransactionStore",
    "check_paging",
    "stat_paging",
    "read_delivery_counts",
    "read_pages",
]
