"""The files that a compaction writes, beside those whose place they take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from binlog._codec import pack_journal
from binlog.format.crc import crc32c
from binlog.format.journal.block import fragment_place, fragments_end
from binlog.format.journal.file_header import JOURNAL_END, FileHeader
from binlog.format.journal.names import COMPACTED_END
from binlog.format.journal.record import Kind, pack_counts
from binlog.journal.files import JournalFiles
from binlog.journal.journal_file import JournalFile
from binlog.journal.options import JournalOptions
from binlog.journal.pieces import divide
from binlog.journal.survivors import DELETES, BodyReader, Survivor
from binlog.storage.directory import Directory


class WrittenFile(NamedTuple):
    """A new file, with the ids of the records in it, and how many bytes each takes; a delete is None bytes.

    The file does not count these yet.  crc: CRC-32C of all its bytes.
    """

    file: JournalFile
    crc: int
    items: list[tuple[int, int | None]]


def write_files(
    files: JournalFiles, options: JournalOptions, run: Sequence[JournalFile], pieces: Sequence[Survivor]
) -> list[WrittenFile] | None:
    """Write what the files of a run come to in fewer files; None where it does not fit in fewer.

    The new files have the ids and names of the oldest of the run, and are as large as its largest, or as options say.
    Raises: CorruptError where a record is not what was written; FullError; AccessError; PoisonedError; nothing is left.
    """
    first = files.layout.header_bytes
    largest = max((fragments_end(first, piece.new_bytes) for piece in pieces), default=0)
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
        remove_written(files.directory, written)
        raise
    return written


def _new_file(files: JournalFiles, options: JournalOptions, source: JournalFile, file_bytes: int) -> JournalFile:
    """The one that takes the place of another."""
    ids = files.record_id_in_header
    header = source.header._replace(salt=os.urandom(8), record_id_max=ids)
    return JournalFile(files.directory, source.name, header, file_bytes)


def _write_file(
    files: JournalFiles,
    options: JournalOptions,
    file: JournalFile,
    pieces: list[Survivor],
    new: Sequence[JournalFile],
    bodies: BodyReader,
) -> WrittenFile:
    layout, header = files.layout, file.header
    data = bytearray([layout.fill]) * file.file_bytes
    packed = header.pack()
    data[: len(packed)] = packed
    at = layout.header_bytes
    items: list[tuple[int, int | None]] = []
    for piece in pieces:
        start = fragment_place(at)
        at = _pack(data, at, header, piece, new, bodies)
        if piece.kind != Kind.COMMIT:
            items.append((piece.record_id, None if piece.kind in DELETES else at - start))
        file.outlasts.update(new[place] for place, _ in piece.counts if new[place] is not file)
    data[JOURNAL_END.base : JOURNAL_END.end] = header.pack_end(at, len(pieces))
    file.record_count = len(pieces)
    _put(file, data)
    return WrittenFile(file, crc32c(memoryview(data)), items)


def _pack(
    data: bytearray, at: int, header: FileHeader, piece: Survivor, new: Sequence[JournalFile], bodies: BodyReader
) -> int:
    body = b"" if piece.kind in (*DELETES, Kind.COMMIT) else bodies.read(piece)
    counts = pack_counts((new[place].header.record_id, count) for place, count in piece.counts)
    packed = pack_journal(header.record_id, header.salt, at, *piece[:4], body, counts)
    end = at + len(packed)
    data[at:end] = packed
    return end


def _put(file: JournalFile, data: bytearray) -> None:
    """On the disk, but for the name."""
    name = file.name + COMPACTED_END
    try:
        file.directory.write_new(name, data)
    except BaseException:
        file.directory.remove(name)
        raise


def remove_written(directory: Directory, written: Sequence[WrittenFile]) -> None:
    """Remove files that are not used."""
    for each in written:
        directory.remove(each.file.name + COMPACTED_END)
