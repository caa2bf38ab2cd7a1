"""Journal files as bytes, and their records, as the product finds them and by a plain implementation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.journal.block import BLOCK_BYTES, HEAD_BYTES, fragment_at, fragment_start
from binlog.format.journal.compiled import ColumnScan, scan_columns
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_counts, pack_record, parse_record

_KINDS = set(Kind)
_RECORD_BYTES_MIN = 17  # in JBoss Messaging's layouts

Scanned = tuple[int, int, int, int, int, int, bytes, bytes]
"""A record: kind, offset, end, transaction, id, user_type, body, and packed counts."""


class Scan(NamedTuple):
    """The records of a file; end, gaps and suspects as in ColumnScan."""

    records: list[Scanned]
    end: int
    gaps: list[tuple[int, int]]
    suspects: list[int]

    @property
    def record_count(self) -> int:
        return len(self.records)


def scan_records(data: bytes, header: FileHeader, *, count_max: int = 1 << 16) -> Scan:
    """Return all records of a file as the product finds them.  data: exactly the file."""
    scans = list(scan_columns(data, header, count_max=count_max))
    assert all(scan.record_count == count_max for scan in scans[:-1])
    assert scans[-1].record_count < count_max
    gaps, suspects = [gap for scan in scans for gap in scan.gaps], [at for scan in scans for at in scan.suspects]
    return Scan([row for scan in scans for row in _rows(scan)], scans[-1].end, gaps, suspects)


def _rows(scan: ColumnScan) -> list[Scanned]:
    columns = [
        memoryview(column).cast(width)
        for column, width in (
            (scan.kind, "B"), (scan.offset, "q"), (scan.record_bytes, "q"), (scan.tx_id, "q"), (scan.record_id, "q"),
            (scan.user_type, "B"), (scan.body_offset, "q"), (scan.body_bytes, "i"), (scan.counts_bytes, "i"),
        )
    ]  # fmt: skip
    assert [len(column) for column in columns] == [scan.record_count] * len(columns)
    found: list[Scanned] = []
    for kind, offset, size, tx_id, record_id, user_type, body_at, body_bytes, counts_bytes in zip(
        *columns, strict=True
    ):
        stop = body_at + body_bytes
        body, counts = bytes(scan.data[body_at:stop]), bytes(scan.data[stop : stop + counts_bytes])
        found.append((kind, offset, offset + size, tx_id, record_id, user_type, body, counts))
    assert scan.counts == [each[7] for each in found if each[0] in (Kind.PREPARE, Kind.COMMIT)]
    return found


def plain_scan(data: bytes, header: FileHeader) -> Scan:
    """Return the same, each record parsed alone."""
    end = header.layout.header_bytes
    found = Scan([], end, [], [])
    for at, record, stop in plain_records(data, header):
        if record is None:
            found.suspects.append(at)
            continue
        if at != end:
            found.gaps.append((end, at))
        found.records.append((record.kind, at, stop, *record[1:5], pack_counts(record.counts)))
        end = stop
    return found._replace(end=end)


def plain_records(data: bytes, header: FileHeader) -> Iterator[tuple[int, JournalRecord | None, int]]:
    """Yield the records of a file and their offsets; None for a suspect in JBoss Messaging's layouts.

    Bytes that are no record are skipped by fragments, or to the next block, in the native layout; else byte by byte.
    """
    native = header.layout is JournalLayout.NATIVE
    at = fragment_start(header.layout.header_bytes) if native else header.layout.header_bytes
    while at < len(data):
        try:
            record, stop = parse_record(data, at, header, "a file")
        except CorruptError:
            if not native:
                is_use = data[at] in _KINDS and data[at + 1 : at + 5] == header.record_id.to_bytes(4)
                if is_use and len(data) - at >= _RECORD_BYTES_MIN:
                    yield at, None, at
                at += 1
            elif (head := fragment_at(data, at, header.salt)) is None:
                at += BLOCK_BYTES - at % BLOCK_BYTES
            else:
                at = fragment_start(at + HEAD_BYTES + head["data_bytes"])
            continue
        yield at, record, stop
        at = fragment_start(stop) if native else stop


def found_places(data: bytes, header: FileHeader) -> list[int]:
    """Return the offsets at which every reader of a file finds its records."""
    scan = scan_records(data, header)
    for data_there, count_max in [(data, 2), (data, 5), (data[: scan.end], 3)]:
        assert scan_records(data_there, header, count_max=count_max).records == scan.records
    return [each[1] for each in scan.records]


def file_of(header: FileHeader, records: list[JournalRecord]) -> tuple[bytearray, list[tuple[int, int]]]:
    """Pack records into a file; also return their offsets."""
    data = bytearray(header.pack())
    places = []
    for record in records:
        packed = pack_record(record, header, len(data))
        start = fragment_start(len(data)) if header.layout is JournalLayout.NATIVE else len(data)
        data += packed
        places.append((start, len(data)))
    return data, places


def file_of_adds(header: FileHeader, bodies: list[bytes]) -> tuple[bytearray, list[tuple[int, int]]]:
    """Pack adds with these bodies; their ids are their numbers."""
    records = [JournalRecord(Kind.ADD, 0, number, 1, body) for number, body in enumerate(bodies)]
    return file_of(header, records)
