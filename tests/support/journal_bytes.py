"""Files of a journal as bytes, and where those who read these find records."""

from __future__ import annotations

from binlog.format.journal.block import fragment_place
from binlog.format.journal.compiled import load_records, scan_columns, scan_records
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record
from binlog.journal.record import Record


def found_places(data: bytes, header: FileHeader) -> list[int]:
    """Where all who go through the records of a file find them."""
    places = [each[1] for each in scan_records(data, header).records]
    loaded = load_records(data, header, Record, 1)
    assert loaded.record_count == len(places)
    for data_there, count_max in [(data, 2), (data, 1 << 16), (data[: loaded.end], 3)]:
        scans = list(scan_columns(data_there, header, count_max=count_max))
        assert [at for scan in scans for at in memoryview(scan.offset).cast("q")] == places
    return places


def file_of(header: FileHeader, records: list[JournalRecord]) -> tuple[bytearray, list[tuple[int, int]]]:
    """A file of some records, and where these lie."""
    data = bytearray(header.pack())
    places = []
    for record in records:
        packed = pack_record(record, header, len(data))
        start = fragment_place(len(data)) if header.layout is JournalLayout.NATIVE else len(data)
        data += packed
        places.append((start, len(data)))
    return data, places


def file_of_adds(header: FileHeader, bodies: list[bytes]) -> tuple[bytearray, list[tuple[int, int]]]:
    """The same of adds, whose ids are their numbers."""
    records = [JournalRecord(Kind.ADD, 0, number, 1, body) for number, body in enumerate(bodies)]
    return file_of(header, records)
