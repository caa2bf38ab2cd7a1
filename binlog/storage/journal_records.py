"""Records of a journal by the compiled functions: see binlog/format/journal/record.py for the plain way to say it."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from binlog.format.journal.block import DATA_BYTES_MAX, HEAD_BYTES
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record, unpack_counts
from binlog.storage.native import join_fragments, load_journal, pack_journal, scan_journal

__all__ = [
    "Adds",
    "LoadScan",
    "Scan",
    "Scanned",
    "join_fragments",
    "load_records",
    "pack_journal",
    "pack_old",
    "record_room",
    "scan_records",
]

# Of the longest head of a record, and of its check.
_ROOM = 64


def record_room(size: int) -> int:
    """How much room `pack_journal` wants for a record of `size` bytes, which may be without the heads of fragments."""
    return size + _ROOM + HEAD_BYTES * (size // DATA_BYTES_MAX + 4)


def pack_old(
    buffer: bytearray, place: int, file_id: int, salt: bytes, at: int, kind: int,
    tx_id: int, record_id: int, user_type: int, body: bytes, counts: bytes,
) -> int:  # fmt: skip
    """As `pack_journal`, in the layout that JBoss Messaging had until September 2008."""
    del salt
    header = FileHeader(JournalLayout.JBM_2008_07, file_id)
    try:
        record = JournalRecord(Kind(kind), tx_id, record_id, user_type, body, tuple(unpack_counts(counts)))
        data = pack_record(record, header, at)
    except struct.error as error:
        raise OverflowError(str(error)) from error
    buffer[place : place + len(data)] = data
    return place + len(data)


Scanned = tuple[int, int, int, int, int, int, bytes, bytes]
"""A record as it was found: kind, offset, end, transaction, id, user's type, body, and the counts as they lie there."""


Adds = tuple[dict[int, int], list[Any], int]
"""ADD records that lie one behind the other, no id twice.

The file's number << 32 | the bytes that the record takes, by ids; the records; how many bytes they take together.
"""


class Scan(NamedTuple):
    """What a file holds.

    records: in the order in which they lie.  record_count: of them, also of those that were not asked for.
    end: where the last one ends.  gaps: what is no record before that, as pairs of offsets.
    doubts: in JBoss Messaging's layouts where something begins as a record of this use of the file, and goes on as
    none; a thousand at most.
    """

    records: list[Scanned]
    record_count: int
    end: int
    gaps: list[tuple[int, int]]
    doubts: list[int]


class LoadScan(NamedTuple):
    """As Scan, with adds taken together."""

    items: list[Scanned | Adds]
    record_count: int
    end: int
    gaps: list[tuple[int, int]]
    doubts: list[int]


def to_scan(data: bytes, header: FileHeader) -> bytes | bytearray:
    """A file's bytes, to be scanned once: in our layout a copy, in which a record's fragments are moved together."""
    return bytearray(data) if header.layout is JournalLayout.NATIVE else data


def scan_records(data: bytes, header: FileHeader, *, transactions_only: bool = False) -> Scan:
    """All records of a file which has just `data`; those outside of transactions are only counted where told so."""
    old = header.layout is JournalLayout.JBM_2008_07
    start = header.layout.header_bytes
    return Scan(*scan_journal(to_scan(data, header), start, header.record_id, header.salt, old, transactions_only))


def load_records(data: bytes, header: FileHeader, record_type: type[tuple[Any, ...]], number: int) -> LoadScan:
    """As `scan_records`, all of them, for a load.

    record_type: a named tuple of id, user's type, body and False, of which each ADD becomes one.  number: of the file.
    """
    old = header.layout is JournalLayout.JBM_2008_07
    start = header.layout.header_bytes
    return LoadScan(
        *load_journal(to_scan(data, header), start, header.record_id, header.salt, old, record_type, number)
    )
