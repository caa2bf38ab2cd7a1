"""The options of reading a journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from binlog.journal import JournalLayout
from binlog.spark.log.options import ENGINE, one_local_path
from binlog.spark.option_values import Options, count, parse_known, permissive, record_bytes, size, some_text

_MIB = 1 << 20


@dataclass(frozen=True)
class JournalReadOptions:
    """The options of a read.

    path: the journal's folder, absolute.  prefix, extension: of its files' names.
    layout: of files that do not name theirs; None for that of JBoss Messaging since September 2008.
    permissive: whether damage becomes a row, or is an error.  The others are as in ReadOptions.
    """

    path: str
    prefix: str = "journal"
    extension: str = "jnl"
    layout: JournalLayout | None = None
    permissive: bool = False
    partition_bytes: int | None = None
    partitions_min: int = 1
    record_bytes_max: int = 64 * _MIB


def parse_journal_options(options: Mapping[str, str]) -> JournalReadOptions:
    """Parse the options of a read.  Raises: ValueError for a missing, unknown or wrong option."""
    given = {name.lower(): value for name, value in options.items()}
    path = one_local_path(given, "journal", "folder")
    found = parse_known(given, _OPTIONS, ENGINE)
    return JournalReadOptions(path=path, **found)


def _layout(name: str, text: str) -> JournalLayout:
    known = [layout.value for layout in JournalLayout]
    if text.strip().lower() not in known:
        raise ValueError(f"binlog: {name} must be {' or '.join(known)}, not {text!r}")
    return JournalLayout(text.strip().lower())


def _name_part(name: str, text: str) -> str:
    part = some_text(name, text)
    if "/" in part:
        raise ValueError(f"binlog: {name} must be a part of file names, not {text!r}")
    return part


_OPTIONS: Options = {
    "prefix": ("prefix", _name_part),
    "extension": ("extension", _name_part),
    "layout": ("layout", _layout),
    "mode": ("permissive", permissive),
    "minPartitions": ("partitions_min", count),
    "maxPartitionBytes": ("partition_bytes", size),
    "maxRecordBytes": ("record_bytes_max", record_bytes),
}
