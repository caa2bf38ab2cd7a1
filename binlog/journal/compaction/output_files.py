"""The files that a compaction writes: their records, and how those are divided among the files.

Each committed transaction is written as a transaction again, as far as it is live.  So even if one of its records is
damaged later, the transaction stays all or nothing.  If only one record is left, it is written without a transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from binlog._codec import pack_journal
from binlog.format.checksums import crc32c
from binlog.format.journal.block import fragment_start, fragments_end
from binlog.format.journal.file_header import JOURNAL_END, FileHeader
from binlog.format.journal.names import COMPACTED_END
from binlog.format.journal.record import Kind, pack_counts
from binlog.journal.compaction.live_records import DELETES, BodyReader, LiveRecord
from binlog.journal.files.journal_files import JournalFile, JournalFiles
from binlog.journal.options import JournalOptions
from binlog.storage.directory import Directory

_PLAIN = {Kind.ADD_TX: Kind.ADD, Kind.UPDATE_TX: Kind.UPDATE, Kind.DELETE_TX: Kind.DELETE}


def output_records(records: Iterable[LiveRecord]) -> Iterator[LiveRecord]:
    """Yield the records to write: live records, with the records of each transaction right before its commit."""
    transaction: list[LiveRecord] = []
    for record in records:
        if record.kind in _PLAIN:
            transaction.append(record)
        elif record.kind != Kind.COMMIT:
            yield record
        elif len(transaction) == 1:
            single = transaction.pop()
            yield single._replace(kind=_PLAIN[single.kind], tx_id=0)
        elif transaction:
            yield from transaction
            yield record
            transaction.clear()


def distribute(records: Iterable[LiveRecord], first: int, file_bytes: int) -> list[list[LiveRecord]] | None:
    """Divide records among files, and fill in the counts of commits; return None if a record fits in no file.

    first: the offset of the first record in a file.
    """
    parts: list[list[LiveRecord]] = []
    at = file_bytes
    counts: dict[int, int] = {}
    for record in records:
        if record.kind == Kind.COMMIT:
            record = record._replace(counts=tuple(counts.items()))
            counts = {}
        end = fragments_end(at, record.new_bytes)
        if end > file_bytes:
            parts.append([])
            end = fragments_end(first, record.new_bytes)
            if end > file_bytes:
                return None
        parts[-1].append(record)
        at = end
        if record.kind in _PLAIN:
            counts[len(parts) - 1] = counts.get(len(parts) - 1, 0) + 1
    return parts


class WrittenFile(NamedTuple):
    """A new file, and the ids and sizes of its records; a delete has the size None.

    The counts of the file do not include these yet.  crc: CRC-32C of all its bytes.
    """

    file: JournalFile
    crc: int
    items: list[tuple[int, int | None]]


def write_files(
    files: JournalFiles, options: JournalOptions, group: Sequence[JournalFile], records: Sequence[LiveRecord]
) -> list[WrittenFile] | None:
    """Write the records of a group to fewer files; return None if they would need as many files.

    The new files take the ids and names of the oldest files of the group.  Their size is that of the largest one, or of
    the options if that is larger.
    Raises: CorruptError if a record is damaged; FullError; AccessError; PoisonedError.  Then no new file is left.
    """
    first = files.layout.header_bytes
    largest = max((fragments_end(first, record.new_bytes) for record in records), default=0)
    file_bytes = max(options.file_bytes, largest, *(file.file_bytes for file in group))
    parts = distribute(records, first, file_bytes)
    if parts is None or not len(parts) < len(group):
        return None
    new = [_new_file(files, options, source, file_bytes) for source, _ in zip(group, parts, strict=False)]
    written: list[WrittenFile] = []
    try:
        with BodyReader() as bodies:
            for file, part in zip(new, parts, strict=True):
                written.append(_write_file(files, options, file, part, new, bodies))
    except BaseException:
        remove_written(files.directory, written)
        raise
    return written


def _new_file(files: JournalFiles, options: JournalOptions, source: JournalFile, file_bytes: int) -> JournalFile:
    """Return the file that will replace another."""
    ids = files.record_id_in_header
    header = source.header._replace(salt=os.urandom(8), record_id_max=ids)
    return JournalFile(files.directory, source.name, header, file_bytes)


def _write_file(
    files: JournalFiles,
    options: JournalOptions,
    file: JournalFile,
    records: list[LiveRecord],
    new: Sequence[JournalFile],
    bodies: BodyReader,
) -> WrittenFile:
    layout, header = files.layout, file.header
    data = bytearray([layout.fill]) * file.file_bytes
    packed = header.pack()
    data[: len(packed)] = packed
    at = layout.header_bytes
    items: list[tuple[int, int | None]] = []
    for record in records:
        start = fragment_start(at)
        at = _pack(data, at, header, record, new, bodies)
        if record.kind != Kind.COMMIT:
            items.append((record.record_id, None if record.kind in DELETES else at - start))
        file.must_outlive.update(new[number] for number, _ in record.counts if new[number] is not file)
    data[JOURNAL_END.base : JOURNAL_END.end] = header.pack_end(at, len(records))
    file.record_count = len(records)
    _write_beside(file, data)
    return WrittenFile(file, crc32c(memoryview(data)), items)


def _pack(
    data: bytearray, at: int, header: FileHeader, record: LiveRecord, new: Sequence[JournalFile], bodies: BodyReader
) -> int:
    body = b"" if record.kind in (*DELETES, Kind.COMMIT) else bodies.read(record)
    counts = pack_counts((new[number].header.record_id, count) for number, count in record.counts)
    packed = pack_journal(header.record_id, header.salt, at, *record[:4], body, counts)
    end = at + len(packed)
    data[at:end] = packed
    return end


def _write_beside(file: JournalFile, data: bytearray) -> None:
    """Write the file durably, beside the one that it will replace."""
    name = file.name + COMPACTED_END
    try:
        file.directory.write_new(name, data)
    except BaseException:
        file.directory.remove(name)
        raise


def remove_written(directory: Directory, written: Sequence[WrittenFile]) -> None:
    """Remove new files that will not be used."""
    for each in written:
        directory.remove(each.file.name + COMPACTED_END)
