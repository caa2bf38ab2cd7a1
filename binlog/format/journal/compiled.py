"""Records of a journal by the compiled functions; record.py is the plain way to say it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from binlog._codec import load_journal, scan_journal, scan_journal_columns
from binlog.format.journal.block import DATA_BYTES_MAX, HEAD_BYTES
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record, unpack_counts

# Of the longest head of a record, and of its check.
_ROOM = 64
_RECORDS_AT_ONCE = 1 << 16


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


def _to_scan(data: bytes, header: FileHeader) -> bytes | bytearray:
    """A file's bytes, to be scanned once: in our layout a copy, in which a record's fragments are moved together."""
    return bytearray(data) if header.layout is JournalLayout.NATIVE else data


def scan_records(data: bytes, header: FileHeader, *, transactions_only: bool = False) -> Scan:
    """All records of a file which has just `data`; those outside of transactions are only counted where told so."""
    old = header.layout is JournalLayout.JBM_2008_07
    start = header.layout.header_bytes
    return Scan(*scan_journal(_to_scan(data, header), start, header.record_id, header.salt, old, transactions_only))


def load_records(data: bytes, header: FileHeader, record_type: type[tuple[Any, ...]], number: int) -> LoadScan:
    """As `scan_records`, all of them, for a load.

    record_type: a named tuple of id, user's type, body and False, of which each ADD becomes one.  number: of the file.
    """
    old = header.layout is JournalLayout.JBM_2008_07
    start = header.layout.header_bytes
    return LoadScan(
        *load_journal(_to_scan(data, header), start, header.record_id, header.salt, old, record_type, number)
    )


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
    data_to_scan = _to_scan(data, header)
    old = header.layout is JournalLayout.JBM_2008_07
    end = header.layout.header_bytes
    while True:
        count, columns, end, gaps, doubts = scan_journal_columns(
            data_to_scan, end, header.record_id, header.salt, old, count_max
        )
        yield ColumnScan(data_to_scan, count, *columns, end, gaps, doubts)
        if count < count_max:
            return
