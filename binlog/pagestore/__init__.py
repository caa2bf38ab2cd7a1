"""The page store: queues in one file of pages, with a transaction log, modelled on SwiftMQ's file store.

`store` is the public object.  `queues` and `transaction` change pages through `pages`; `transaction_log` makes a
transaction durable; `recovery` applies the log after a crash.
"""

from binlog.format.pagestore.other_files import DurableSubscriber
from binlog.format.pagestore.prepared import Xid, parse_xid
from binlog.pagestore.inspection import check_page_store
from binlog.pagestore.options import PageStoreOptions
from binlog.pagestore.prepared import PreparedTransaction
from binlog.pagestore.stat import PageStoreStat, QueueStat, read_queue, stat_page_store
from binlog.pagestore.store import PageStore
from binlog.pagestore.subscribers import DurableSubscribers
from binlog.pagestore.swap import SwapAddress, SwappedMessage, SwappingQueue, SwapStore
from binlog.pagestore.transaction import Message, Transaction

__all__ = [
    "DurableSubscriber",
    "DurableSubscribers",
    "Message",
    "PageStore",
    "PageStoreOptions",
    "PageStoreStat",
    "PreparedTransaction",
    "QueueStat",
    "SwapAddress",
    "SwapStore",
    "SwappedMessage",
    "SwappingQueue",
    "Transaction",
    "Xid",
    "check_page_store",
    "parse_xid",
    "read_queue",
    "stat_page_store",
]
