"""The commit log: messages with topics, queues, tags, keys and times, in the files of Apache RocketMQ's store.

`store` is the store as its owner has it; other processes use `read`.  A message goes through `append` into the log;
`indexes` adds it to its queue and to the key index.  `recovery` opens a store after a crash, and `check` verifies
one.
"""

from binlog.commitlog.append.flush_services import CommitRealTimeService, FlushRealTimeService, GroupCommitService, Pace
from binlog.commitlog.append.message import Appended, Message
from binlog.commitlog.check.check import check_store
from binlog.commitlog.files.mapped_file import Buffer, MappedFile
from binlog.commitlog.files.mapped_file_queue import MappedFileQueue
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.read.column_reader import ColumnReader, MessageColumns
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.read.topic_reader import TopicReader
from binlog.commitlog.retention import Retention
from binlog.commitlog.stat import KeyIndexStat, QueueStat, StoreFileStat, StoreStat, stat_store
from binlog.commitlog.store import MessageStore
from binlog.commitlog.waiting.transactions import Half, Transactions
from binlog.format.commitlog.indexes import KeyIndexSize
from binlog.format.commitlog.message import StoredMessage
from binlog.format.commitlog.message_parts import (
    TAGS,
    Host,
    message_id,
    parse_message_id,
    parse_properties,
    unpack_host,
)

__all__ = [
    "TAGS",
    "Appended",
    "Buffer",
    "ColumnReader",
    "CommitRealTimeService",
    "Flush",
    "FlushRealTimeService",
    "GroupCommitService",
    "Half",
    "Host",
    "KeyIndexSize",
    "KeyIndexStat",
    "MappedFile",
    "MappedFileQueue",
    "Message",
    "MessageColumns",
    "MessageStore",
    "Pace",
    "QueueStat",
    "Retention",
    "StoreFileStat",
    "StoreOptions",
    "StoreReader",
    "StoreStat",
    "StoredMessage",
    "TopicReader",
    "Transactions",
    "check_store",
    "message_id",
    "parse_message_id",
    "parse_properties",
    "stat_store",
    "unpack_host",
]
