"""Records of a journal by the compiled functions; record.py is the plain way to say it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from binlog._codec import scan_journal_columns
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record, unpack_counts

_RECORDS_AT_ONCE = 1 << 16


def pack_old(
    file_id: int, salt: bytes, at: int, kind: int, tx_id: int,
    record_id: int, user_type: int, body: bytes, counts: bytes,
) -> bytes:  # fmt: skip
    """As `pack_journal`, in the layout that JBoss Messaging had until September 2008."""
    del salt
    header = FileHeader(JournalLayout.JBM_2008_07, file_id)
    try:
        record = JournalRecord(Kind(kind), tx_id, record_id, user_type, body, tuple(unpack_counts(counts)))
        return pack_record(record, header, at)
    except struct.error as error:
        raise OverflowError(str(error)) from error


class ColumnScan(NamedTuple):
    """Some records of a file, in the order in which they lie, a value of each column for each; and what lies between.

    offset, record_bytes, tx_id, record_id, body_offset: int64.  body_bytes, counts_bytes: int32.  kind, user_type: a
    byte.
    data: where the bodies are.  counts: of each COMMIT and PREPARE, as they lie there, behind its body.
    end: where the last one ends.  gaps: what is no record before that, as pairs of offsets.
    doubts: in JBoss Messaging's layouts where something begins as a record of this use of the file, and goes on as
    none; a thousand at most.  Both were met on the way to the last record, or after it if it is the last of the file.
    records: what each of them is for a load, if that was asked for.
    """

    data: bytes | bytearray
    record_count: int
    offset: bytes
    record_bytes: bytes
    tx_id: bytes
    record_id: bytes
    body_offset: bytes
    body_bytes: bytes
    counts_bytes: bytes
    kind: bytes
    user_type: bytes
    counts: list[bytes]
    end: int
    gaps: list[tuple[int, int]]
    doubts: list[int]
    records: list[Any]

    def offset_of(self, index: int) -> int:
        """Where one of them lies."""
        return _number(self.offset, index)

    def bytes_of(self, index: int) -> int:
        """How many bytes one of them takes."""
        return _number(self.record_bytes, index)

    def body_bytes_of(self, index: int) -> int:
        """How many bytes of the user's one of them has."""
        return int(memoryview(self.body_bytes).cast("i")[index])

    def id_of(self, index: int) -> int:
        """The record that one of them adds, updates or deletes."""
        return _number(self.record_id, index)

    def tx_id_of(self, index: int) -> int:
        """The transaction that one of them is of."""
        return _number(self.tx_id, index)


COLUMNS = ColumnScan._fields[2:11]


def scan_file(data: bytes, header: FileHeader, record_type: type[Any] | None = None) -> ColumnScan:
    """All records of a file which has just `data`, as `scan_columns` gives them, but for where their bodies are."""
    found = next(scan_columns(data, header, count_max=len(data), record_type=record_type))
    return found._replace(data=b"", body_offset=b"", counts_bytes=b"")


def scan_columns(
    data: bytes, header: FileHeader, *, count_max: int = _RECORDS_AT_ONCE, record_type: type[Any] | None = None
) -> Iterator[ColumnScan]:
    """All records of a file that begins with `data`, up to so many at a time; the last ones may be none.

    record_type: a named tuple of id, user's type, body and whether it is an update, which each ADD and UPDATE becomes;
    a DELETE_TX or PREPARE becomes its body, and the others None.
    """
    # In our layout a record's fragments are moved together in what is scanned.
    data_to_scan = bytearray(data) if header.layout is JournalLayout.NATIVE else data
    old = header.layout is JournalLayout.JBM_2008_07
    end = header.layout.header_bytes
    while True:
        count, columns, counts, end, gaps, doubts, records = scan_journal_columns(
            data_to_scan, end, header.record_id, header.salt, old, count_max, record_type
        )
        yield ColumnScan(data_to_scan, count, *columns, counts, end, gaps, doubts, records)
        if count < count_max:
            return


def _number(column: bytes, index: int) -> int:
    return int(memoryview(column).cast("q")[index])
