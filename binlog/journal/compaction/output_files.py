"""The files that a compaction writes, beside those whose place they take.

What a compaction writes, record by record: what is alive, each committed transaction as one again.

So of a transaction, or what is left of it, all or nothing is there, also where one of its records is damaged later.
One of which a single record is left needs none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from binlog._codec import pack_journal
from binlog.format.checksums import crc32c
from binlog.format.journal.block import fragment_place, fragments_end
from binlog.format.journal.file_header import JOURNAL_END, FileHeader
from binlog.format.journal.names import COMPACTED_END
from binlog.format.journal.record import Kind, pack_counts
from binlog.journal.compaction.live_records import DELETES, BodyReader, Survivor
from binlog.journal.files.journal_files import JournalFile, JournalFiles
from binlog.journal.options import JournalOptions
from binlog.storage.directory import Directory

_PLAIN = {Kind.ADD_TX: Kind.ADD, Kind.UPDATE_TX: Kind.UPDATE, Kind.DELETE_TX: Kind.DELETE}


def pieces_of(items: Iterable[Survivor]) -> Iterator[Survivor]:
    """The records that say what the items say; those of a transaction, which its commit does together, lie together."""
    together: list[Survivor] = []
    for item in items:
        if item.kind in _PLAIN:
            together.append(item)
        elif item.kind != Kind.COMMIT:
            yield item
        elif len(together) == 1:
            alone = together.pop()
            yield alone._replace(kind=_PLAIN[alone.kind], tx_id=0)
        elif together:
            yield from together
            yield item
            together.clear()


def divide(pieces: Iterable[Survivor], first: int, file_bytes: int) -> list[list[Survivor]] | None:
    """As many as fit in each file, from the offset `first` on; commits with their counts.  None if one does not fit."""
    parts: list[list[Survivor]] = []
    at = file_bytes
    counts: dict[int, int] = {}
    for piece in pieces:
        if piece.kind == Kind.COMMIT:
            piece = piece._replace(counts=tuple(counts.items()))
            counts = {}
        end = fragments_end(at, piece.new_bytes)
        if end > file_bytes:
            parts.append([])
            end = fragments_end(first, piece.new_bytes)
            if end > file_bytes:
                return None
        parts[-1].append(piece)
        at = end
        if piece.kind in _PLAIN:
            counts[len(parts) - 1] = counts.get(len(parts) - 1, 0) + 1
    return parts


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
