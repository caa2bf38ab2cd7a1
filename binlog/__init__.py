"""binlog: a durable log that many processes share through a directory, without a server.

The names of this package are the log: `Writer`, `Reader` and the functions that maintain a log; and its consumer
groups: `ConsumerGroup` and `Producer`.  `binlog.queue`,
`binlog.commitlog`, `binlog.journal`, `binlog.paging` and `binlog.pagestore` are the other engines; `binlog.spark`
needs PySpark.  docs/architecture.md says where to begin reading the source.
"""

from typing import TYPE_CHECKING, Any

from binlog import errors
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

if TYPE_CHECKING:
    from binlog.checking import check
    from binlog.compose import OpenedPaging, open_paging, open_queue
    from binlog.consumers.group import ConsumerGroup
    from binlog.consumers.item import Item
    from binlog.consumers.item_batch import ItemBatch
    from binlog.consumers.producer import Producer
    from binlog.consumers.retention import group_names
    from binlog.consumers.state.settings import OnExpiry, Order, Retry
    from binlog.format.consumers.message import Message
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
    from binlog.log.maintain.prune import Pruned
    from binlog.log.maintain.repair import Repair, repair
    from binlog.log.maintain.stat import FileStat, LogStat, file_sizes, stat
    from binlog.log.options import Background
    from binlog.log.read.lag import Lag, lag
    from binlog.log.read.range_reader import RangeReader, TimedBatch
    from binlog.log.read.ranges import limit_range, narrow_range, split_range
    from binlog.log.read.record_times import RecordTimes, TimedRange
    from binlog.log.read.start import Sequence, Since, Start
    from binlog.log.reader import Reader
    from binlog.log.writer import Writer
    from binlog.retention import prune
    from binlog.storage.files import FileSystem
    from binlog.storage.mode import Mode


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
    "RecordTimes",
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
    "TimedRange",
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
]


# Where the names are that are imported when they are used, because no program uses them all.  The type checker imports
# them above.
_NAMES = {
    "binlog.checking": ("check",),
    "binlog.compose": ("OpenedPaging", "open_paging", "open_queue"),
    "binlog.consumers.group": ("ConsumerGroup",),
    "binlog.consumers.item": ("Item",),
    "binlog.consumers.item_batch": ("ItemBatch",),
    "binlog.consumers.producer": ("Producer",),
    "binlog.consumers.retention": ("group_names",),
    "binlog.consumers.state.settings": ("OnExpiry", "Order", "Retry"),
    "binlog.format.consumers.message": ("Message",),
    "binlog.format.problem": ("Problem",),
    "binlog.format.record": ("Ref",),
    "binlog.format.values": ("parse_bytes", "parse_seconds"),
    "binlog.log.append.producers": ("ProducerBatch",),
    "binlog.log.append.writer_stat": ("WriterStat",),
    "binlog.log.archive.archive": ("Archived", "archive"),
    "binlog.log.batch": ("Batch", "Entry", "JsonMember", "Refs"),
    "binlog.log.index.index_check": ("DamagedRange",),
    "binlog.log.ingest.external_file": ("ExternalFile", "ExternalFileWriter"),
    "binlog.log.maintain.backup": ("Backup", "backup"),
    "binlog.log.maintain.prune": ("Pruned",),
    "binlog.log.maintain.repair": ("Repair", "repair"),
    "binlog.log.maintain.stat": ("FileStat", "LogStat", "file_sizes", "stat"),
    "binlog.log.options": ("Background",),
    "binlog.log.read.lag": ("Lag", "lag"),
    "binlog.log.read.range_reader": ("RangeReader", "TimedBatch"),
    "binlog.log.read.ranges": ("limit_range", "narrow_range", "split_range"),
    "binlog.log.read.record_times": ("RecordTimes", "TimedRange"),
    "binlog.log.read.start": ("Sequence", "Since", "Start"),
    "binlog.log.reader": ("Reader",),
    "binlog.log.writer": ("Writer",),
    "binlog.retention": ("prune",),
    "binlog.storage.files": ("FileSystem",),
    "binlog.storage.mode": ("Mode",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
