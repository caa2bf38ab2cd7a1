"""The files that a compaction writes, beside those whose place they take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from binlog._codec import pack_journal
from binlog.format.crc import crc32c
from binlog.format.journal.block import fragment_place, fragments_end
from binlog.format.journal.compiled import record_room
from binlog.format.journal.file_header import JOURNAL_END, FileHeader
from binlog.format.journal.names import COMPACTED_END
from binlog.format.journal.record import pack_counts
from binlog.journal.files import JournalFiles
from binlog.journal.journal_file import JournalFile
from binlog.journal.options import JournalOptions
from binlog.journal.pieces import Piece, divide
from binlog.journal.record import Record
from binlog.journal.survivors import BodyReader, place_of
from binlog.storage.files import create_file, remove_file, sync, write_at


class WrittenFile(NamedTuple):
    """A new file, with the ids of the records in it, and how many bytes each takes; a delete is None bytes.

    The file counts the transactions in it, and their ends, but not yet these.  crc: CRC-32C of all its bytes.
    """

    file: JournalFile
    crc: int
    items: list[tuple[int, int | None]]


def write_files(
    files: JournalFiles, options: JournalOptions, run: Sequence[JournalFile], pieces: Sequence[Piece]
) -> list[WrittenFile] | None:
    """Write what the files of a run come to in fewer files; None where it does not fit in fewer.

    The new files have the ids and names of the oldest of the run, and are as large as its largest, or as options say.
    Raises: CorruptError where a record is not what was written; FullError; AccessError; PoisonedError; nothing is left.
    """
    first = files.layout.header_bytes
    largest = max((fragments_end(first, piece.bytes) for piece in pieces), default=0)
    file_bytes = max(options.file_bytes, largest, *(file.file_bytes for file in run))
    parts = divide(pieces, first, file_bytes)
    if parts is None or not len(parts) < len(run):
        return None
    new = [_new_file(files, options, source, file_bytes) for source, _ in zip(run, parts, strict=False)]
    written: list[WrittenFile] = []
    try:
        with BodyReader() as bodies:
            for file, part in zip(new, parts, strict=True):
                written.append(_write_file(files, options, file, part, new, bodies))
    except BaseException:
        remove_written(files.directory_fd, written)
        raise
    return written


def _new_file(files: JournalFiles, options: JournalOptions, source: JournalFile, file_bytes: int) -> JournalFile:
    """The one that takes the place of another."""
    ids = files.record_id_in_header
    header = source.header._replace(salt=os.urandom(8), record_id_max=ids)
    return JournalFile(files.folder, files.directory_fd, source.name, header, file_bytes)


def _write_file(
    files: JournalFiles,
    options: JournalOptions,
    file: JournalFile,
    pieces: list[Piece],
    new: Sequence[JournalFile],
    bodies: BodyReader,
) -> WrittenFile:
    layout, header = files.layout, file.header
    data = bytearray([layout.fill]) * (file.file_bytes + record_room(0))
    packed = header.pack()
    data[: len(packed)] = packed
    at = layout.header_bytes
    items: list[tuple[int, int | None]] = []
    for piece in pieces:
        start = fragment_place(at)
        at = _pack(data, at, header, piece, new, bodies)
        if piece.item is not None:
            items.append((piece.item.record_id, at - start if isinstance(piece.item, Record) else None))
        for place, _ in piece.counts:  # as Ledger has it: it goes on there, and ends here
            new[place].alive += 1
            file.negate(new[place])
    data[JOURNAL_END.base : JOURNAL_END.end] = header.pack_end(at, len(pieces))
    del data[file.file_bytes :]
    file.record_count = len(pieces)
    _put(files.directory_fd, file, data)
    return WrittenFile(file, crc32c(memoryview(data)), items)


def _pack(
    data: bytearray, at: int, header: FileHeader, piece: Piece, new: Sequence[JournalFile], bodies: BodyReader
) -> int:
    body, user_type = b"", 0
    if isinstance(piece.item, Record):
        body, user_type = bodies.read(place_of(piece.item)), piece.item.user_type
    record_id = piece.item.record_id if piece.item else 0
    counts = pack_counts((new[place].header.record_id, count) for place, count in piece.counts)
    return pack_journal(
        data, at, header.record_id, header.salt, at, piece.kind, piece.tx_id, record_id, user_type, body, counts
    )


def _put(directory_fd: int, file: JournalFile, data: bytearray) -> None:
    """On the disk, but for the name."""
    name, path = file.name + COMPACTED_END, file.path + COMPACTED_END
    remove_file(directory_fd, name, path)
    fd = create_file(directory_fd, name, path)
    try:
        write_at(fd, data, 0, path)
        sync(fd, path)
    except BaseException:
        remove_file(directory_fd, name, path)
        raise
    finally:
        os.close(fd)


def remove_written(directory_fd: int, written: Sequence[WrittenFile]) -> None:
    """Remove files that are not used."""
    for each in written:
        remove_file(directory_fd, each.file.name + COMPACTED_END, each.file.path)
