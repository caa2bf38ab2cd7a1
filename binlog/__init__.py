"""binlog: a durable log that many processes share through a directory, without a server.

The names of this package are the log: `Writer`, `Reader` and the functions that maintain a log; and its consumer
groups: `ConsumerGroup` and `Producer`.  `binlog.queue`,
`binlog.commitlog`, `binlog.journal`, `binlog.paging` and `binlog.pagestore` are the other engines; `binlog.spark`
needs PySpark.  docs/architecture.md says where to begin reading the source.
"""

from typing import TYPE_CHECKING, Any

from binlog import errors
from binlog.checking import check
from binlog.errors import (
    AccessError,
    BinlogError,
    BusyError,
    ClosedError,
    CorruptError,
    FullError,
    GoneError,
    InternalError,
    LeaseLostError,
    NotFoundError,
    PoisonedError,
    SealError,
    StateError,
    TimedOutError,
    UnknownOutcomeError,
    VersionError,
)
from binlog.format.problem import Problem
from binlog.format.record import Ref
from binlog.format.values import parse_bytes, parse_seconds
from binlog.log.append.producers import ProducerBatch
from binlog.log.append.writer_stat import WriterStat
from binlog.log.archive.archive import Archived, archive
from binlog.log.batch import Batch, Entry, JsonMember, Refs
from binlog.log.index.index_check import DamagedRange
from binlog.log.ingest.external_file import ExternalFile, ExternalFileWriter
from binlog.log.maintain.backup import Backup, backup
from binlog.log.maintain.check import file_sizes
from binlog.log.maintain.prune import Pruned
from binlog.log.maintain.repair import Repair, repair
from binlog.log.maintain.stat import FileStat, LogStat, stat
from binlog.log.options import Background
from binlog.log.read.batch_times import timed_batch
from binlog.log.read.lag import Lag, lag
from binlog.log.read.range_reader import RangeReader, TimedBatch
from binlog.log.read.ranges import limit_range, narrow_range, split_range
from binlog.log.read.start import Sequence, Since, Start
from binlog.log.reader import Reader
from binlog.log.writer import Writer
from binlog.retention import prune
from binlog.storage.files import FileSystem
from binlog.storage.mode import Mode

if TYPE_CHECKING:
    from binlog.compose import OpenedPaging, open_paging, open_queue
    from binlog.consumers.group import ConsumerGroup
    from binlog.consumers.item import Item
    from binlog.consumers.item_batch import ItemBatch
    from binlog.consumers.producer import Producer
    from binlog.consumers.retention import group_names
    from binlog.consumers.state.settings import OnExpiry, Order, Retry
    from binlog.format.consumers.message import Message

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "Archived",
    "Background",
    "Backup",
    "Batch",
    "BinlogError",
    "BusyError",
    "ClosedError",
    "ConsumerGroup",
    "CorruptError",
    "DamagedRange",
    "Entry",
    "ExternalFile",
    "ExternalFileWriter",
    "FileStat",
    "FileSystem",
    "FullError",
    "GoneError",
    "InternalError",
    "Item",
    "ItemBatch",
    "JsonMember",
    "Lag",
    "LeaseLostError",
    "LogStat",
    "Message",
    "Mode",
    "NotFoundError",
    "OnExpiry",
    "OpenedPaging",
    "Order",
    "PoisonedError",
    "Problem",
    "Producer",
    "ProducerBatch",
    "Pruned",
    "RangeReader",
    "Reader",
    "Ref",
    "Refs",
    "Repair",
    "Retry",
    "SealError",
    "Sequence",
    "Since",
    "Start",
    "StateError",
    "TimedBatch",
    "TimedOutError",
    "UnknownOutcomeError",
    "VersionError",
    "Writer",
    "WriterStat",
    "archive",
    "backup",
    "check",
    "errors",
    "file_sizes",
    "group_names",
    "lag",
    "limit_range",
    "narrow_range",
    "open_paging",
    "open_queue",
    "parse_bytes",
    "parse_seconds",
    "prune",
    "repair",
    "split_range",
    "stat",
    "timed_batch",
]


# Names for which a program that only appends or reads would wait at its start.
_LATER = {
    "ConsumerGroup": "binlog.consumers.group",
    "Item": "binlog.consumers.item",
    "ItemBatch": "binlog.consumers.item_batch",
    "Message": "binlog.format.consumers.message",
    "OnExpiry": "binlog.consumers.state.settings",
    "OpenedPaging": "binlog.compose",
    "Order": "binlog.consumers.state.settings",
    "Producer": "binlog.consumers.producer",
    "Retry": "binlog.consumers.state.settings",
    "group_names": "binlog.consumers.retention",
    "open_paging": "binlog.compose",
    "open_queue": "binlog.compose",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
