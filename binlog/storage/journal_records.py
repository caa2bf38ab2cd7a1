"""Records of a journal by the compiled functions: see binlog/format/journal/record.py for the plain way to say it."""

from __future__ import annotations

from typing import NamedTuple

from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.storage.native import pack_journal, scan_journal

__all__ = ["Scan", "Scanned", "pack_journal", "scan_records"]

Scanned = tuple[int, int, int, int, int, int, bytes, bytes]
"""A record as it was found: kind, offset, end, transaction, id, user's type, body, and the counts as they lie there."""


class Scan(NamedTuple):
    """What a file holds.

    records: in the order in which they lie.  record_count: of them, also of those that were not asked for.
    end: where the last one ends.  gaps: what is no record before that, as pairs of offsets.
    doubts: where something begins as a record of this use of the file, and goes on as none; a thousand at most.
    """

    records: list[Scanned]
    record_count: int
    end: int
    gaps: list[tuple[int, int]]
    doubts: list[int]


def scan_records(data: bytes | memoryview, header: FileHeader, *, transactions_only: bool = False) -> Scan:
    """All records of a file whose bytes are `data`; those outside of transactions are only counted where told so."""
    old = header.layout is JournalLayout.JBM_2008_07
    start = header.layout.header_bytes
    return Scan(*scan_journal(data, start, header.record_id, header.salt, old, transactions_only))
