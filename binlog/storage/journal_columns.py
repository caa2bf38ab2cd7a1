"""Records of a journal's file as columns, without a Python object for any of them, by the compiled functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.storage.journal_records import to_scan
from binlog.storage.native import gather_bodies, scan_journal_columns

__all__ = ["ColumnScan", "gather_bodies", "scan_columns"]

_RECORDS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class ColumnScan:
    """Some records of a file, in the order in which they lie, a value of each column for each; and what lies between.

    offset, record_bytes, tx_id, record_id, body_offset: int64.  body_bytes, counts_bytes: int32.  kind, user_type: a
    byte.
    data: where the bodies are.  The counts of a COMMIT or PREPARE follow its body.
    end: where the last one ends.  gaps, doubts: as Scan has them, met on the way to the last one, or behind it where
    these are the last of the file.
    """

    data: bytes | bytearray
    count: int
    offset: bytes
    record_bytes: bytes
    tx_id: bytes
    record_id: bytes
    body_offset: bytes
    body_bytes: bytes
    counts_bytes: bytes
    kind: bytes
    user_type: bytes
    end: int
    gaps: list[tuple[int, int]]
    doubts: list[int]


def scan_columns(data: bytes, header: FileHeader, *, count_max: int = _RECORDS_AT_ONCE) -> Iterator[ColumnScan]:
    """All records of a file that begins with `data`, up to so many at a time; the last ones may be none."""
    data_to_scan = to_scan(data, header)
    old = header.layout is JournalLayout.JBM_2008_07
    end = header.layout.header_bytes
    while True:
        count, columns, end, gaps, doubts = scan_journal_columns(
            data_to_scan, end, header.record_id, header.salt, old, count_max
        )
        yield ColumnScan(data_to_scan, count, *columns, end, gaps, doubts)
        if count < count_max:
            return
