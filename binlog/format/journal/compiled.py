"""Records of a journal as columns, by compiled functions; record.py is the plain implementation."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from binlog._codec import scan_journal_columns
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record, unpack_counts

_RECORDS_AT_ONCE = 1 << 16


def pack_jbm_2008_07(
    file_id: int, salt: bytes, at: int, kind: int, tx_id: int,
    record_id: int, user_type: int, body: bytes, counts: bytes,
) -> bytes:  # fmt: skip
    """Pack a record as `pack_journal` does, in the layout that JBoss Messaging had until September 2008."""
    del salt
    header = FileHeader(JournalLayout.JBM_2008_07, file_id)
    try:
        record = JournalRecord(Kind(kind), tx_id, record_id, user_type, body, tuple(unpack_counts(counts)))
        return pack_record(record, header, at)
    except struct.error as error:
        raise OverflowError(str(error)) from error


class ColumnScan(NamedTuple):
    """Consecutive records of a file as columns, and the bytes between them that are no record.

    offset, record_bytes, tx_id, record_id, body_offset: int64.  body_bytes, counts_bytes: int32.  kind, user_type: u8.
    data: the bytes that body_offset refers to.  counts: the packed counts of each COMMIT and PREPARE.
    end: the end of the last record.  gaps: pairs of offsets, between records and before the last one.
    suspects: offsets at which bytes begin like a record of this use of the file but are none, in JBoss Messaging's
    layouts; a thousand at most.
    Gaps and suspects are those up to the last record; in the last scan of a file, suspects after it too.
    records: the object of each record for a load, if wanted.
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
    suspects: list[int]
    records: list[Any]

    def offset_of(self, index: int) -> int:
        """Return the offset of a record."""
        return _number(self.offset, index)

    def bytes_of(self, index: int) -> int:
        """Return the size of a record in the file."""
        return _number(self.record_bytes, index)

    def body_bytes_of(self, index: int) -> int:
        """Return the size of a record's body."""
        return int(memoryview(self.body_bytes).cast("i")[index])

    def id_of(self, index: int) -> int:
        """Return the id of the record that is added, updated or deleted."""
        return _number(self.record_id, index)

    def tx_id_of(self, index: int) -> int:
        """Return the id of the transaction, or 0."""
        return _number(self.tx_id, index)


COLUMNS = ColumnScan._fields[2:11]


def scan_file(data: bytes, header: FileHeader, record_type: type[Any] | None = None) -> ColumnScan:
    """Scan all records of a file, without the columns that locate their bodies.  data: exactly the file."""
    scan = next(scan_columns(data, header, count_max=len(data), record_type=record_type))
    return scan._replace(data=b"", body_offset=b"", counts_bytes=b"")


def scan_columns(
    data: bytes, header: FileHeader, *, count_max: int = _RECORDS_AT_ONCE, record_type: type[Any] | None = None
) -> Iterator[ColumnScan]:
    """Scan the records at the beginning of `data`, up to `count_max` at a time; the last scan may be empty.

    record_type: a named tuple of id, user_type, body and is_update, made for each ADD and UPDATE; a DELETE_TX or
    PREPARE becomes its body, and other kinds None.
    """
    # The scan of a native file moves the fragments of a record together, so it needs a copy to write to.
    data_to_scan = bytearray(data) if header.layout is JournalLayout.NATIVE else data
    old = header.layout is JournalLayout.JBM_2008_07
    end = header.layout.header_bytes
    while True:
        count, columns, counts, end, gaps, suspects, records = scan_journal_columns(
            data_to_scan, end, header.record_id, header.salt, old, count_max, record_type
        )
        yield ColumnScan(data_to_scan, count, *columns, counts, end, gaps, suspects, records)
        if count < count_max:
            return


def _number(column: bytes, index: int) -> int:
    return int(memoryview(column).cast("q")[index])
