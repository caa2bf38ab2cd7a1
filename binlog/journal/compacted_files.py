"""The files that a compaction writes, beside those whose place they take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from binlog.format.crc import crc32c
from binlog.format.journal.file_header import JOURNAL_END, FileHeader, JournalLayout, aligned
from binlog.format.journal.names import COMPACTED_END
from binlog.journal.files import JournalFiles
from binlog.journal.journal_file import JournalFile
from binlog.journal.options import JournalOptions
from binlog.journal.record import Deleted, Record
from binlog.journal.survivors import BodyReader, kind_of, new_bytes, place_of
from binlog.storage.files import create_file, remove_file, sync, write_at
from binlog.storage.journal_records import pack_journal

_HEAD_ROOM = 64


class WrittenFile(NamedTuple):
    """A new file, with the ids of the records in it, and how many bytes each takes; a delete is None bytes.

    crc: CRC-32C of all its bytes.
    """

    file: JournalFile
    crc: int
    items: list[tuple[int, int | None]]


def write_files(
    files: JournalFiles, options: JournalOptions, run: Sequence[JournalFile], items: list[Record | Deleted]
) -> list[WrittenFile] | None:
    """Write the items, which lie in the files of a run, in fewer files; None where they do not fit in fewer.

    The new files have the ids and names of the oldest of the run, and are as large as its largest, or as options say.
    Raises: CorruptError where a record is not what was written; FullError; AccessError; PoisonedError; nothing is left.
    """
    first = aligned(files.layout.header_bytes, options.alignment)
    largest = max(map(new_bytes, items), default=0)
    file_bytes = max(options.file_bytes, first + largest, *(file.file_bytes for file in run))
    file_bytes = aligned(file_bytes, options.alignment)
    parts = _divide(items, file_bytes - first)
    if not len(parts) < len(run):
        return None
    written: list[WrittenFile] = []
    try:
        with BodyReader() as bodies:
            for source, part in zip(run, parts, strict=False):
                written.append(_write_file(files, options, source, part, file_bytes, bodies))
    except BaseException:
        remove_written(files.directory_fd, written)
        raise
    return written


def _divide(items: list[Record | Deleted], room: int) -> list[list[Record | Deleted]]:
    """As many as fit in each file."""
    parts: list[list[Record | Deleted]] = []
    left = 0
    for item in items:
        size = new_bytes(item)
        if size > left:
            parts.append([])
            left = room
        parts[-1].append(item)
        left -= size
    return parts


def _write_file(
    files: JournalFiles,
    options: JournalOptions,
    source: JournalFile,
    items: list[Record | Deleted],
    file_bytes: int,
    bodies: BodyReader,
) -> WrittenFile:
    layout = files.layout
    salt = os.urandom(8) if layout is JournalLayout.NATIVE else b""
    ids = files.record_id_in_header
    header = source.header._replace(salt=salt, alignment=options.alignment, record_id_max=ids)
    data = bytearray([layout.fill]) * (file_bytes + _HEAD_ROOM)
    packed = header.pack()
    first = aligned(layout.header_bytes, options.alignment)
    data[:first] = packed.ljust(first, b"\0")
    at = first
    for item in items:
        at = _pack(data, at, header, item, bodies)
    if layout is JournalLayout.NATIVE:
        data[JOURNAL_END.base : JOURNAL_END.end] = header.pack_end(at, len(items))
    del data[file_bytes:]
    new = JournalFile(files.folder, files.directory_fd, source.name, header, file_bytes)
    new.record_count = len(items)
    _put(files.directory_fd, new, data)
    sizes = [(item.record_id, None if isinstance(item, Deleted) else new_bytes(item)) for item in items]
    return WrittenFile(new, crc32c(memoryview(data)), sizes)


def _pack(data: bytearray, at: int, header: FileHeader, item: Record | Deleted, bodies: BodyReader) -> int:
    body, user_type = b"", 0
    if isinstance(item, Record):
        body, user_type = bodies.read(place_of(item)), item.user_type
    return pack_journal(
        data, at, header.record_id, header.salt, at, kind_of(item), 0, item.record_id, user_type, body, b""
    )


def _put(directory_fd: int, file: JournalFile, data: bytearray) -> None:
    """On the disk, but for the name."""
    name, path = file.name + COMPACTED_END, file.path + COMPACTED_END
    remove_file(directory_fd, name, path)
    fd = create_file(directory_fd, name, path, mode=None)
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
