"""What a compaction is about to do with files, written down so that it is done even where its process ends.

The file has a header and one ADD record as a file of a journal in our layout, whatever the journal's own; its body is
JSON.  It is on the disk before the first file is touched, so one that is not whole was of a compaction that did nothing
yet.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from binlog.errors import BinlogError, CorruptError, NotFoundError
from binlog.format.crc import crc32c
from binlog.format.journal.file_header import FILE_START_BYTES, FileHeader, JournalLayout, parse_file_header
from binlog.format.journal.names import COMPACTED_END, CONTROL_FILE
from binlog.format.journal.record import JournalRecord, Kind, pack_record, parse_record
from binlog.storage.failures import own_errors
from binlog.storage.files import create_file, open_file, read_at, remove_file, sync, sync_directory, write_at

_SALT_BYTES = 8
_BYTES_MAX = (1 << 31) - 1


class FileMoves(NamedTuple):
    """What a compaction does with files.

    renamed: names that get the file which is written beside each (`NAME.cmp`), in place of what has the name; and the
    CRC-32C of all its bytes.
    dead: names of files, and the ids of the use in which nobody needs them any more.
    """

    renamed: tuple[tuple[str, int], ...]
    dead: tuple[tuple[str, int], ...]


def write_control(folder: str, directory_fd: int, moves: FileMoves) -> None:
    """Write it down, durably.  Raises: FullError; AccessError; PoisonedError."""
    path = os.path.join(folder, CONTROL_FILE)
    header = FileHeader(JournalLayout.NATIVE, 1, os.urandom(_SALT_BYTES))
    start = header.pack()
    body = json.dumps({"renamed": moves.renamed, "dead": moves.dead}).encode()
    data = start + pack_record(JournalRecord(Kind.ADD, body=body), header, len(start))
    remove_file(directory_fd, CONTROL_FILE, path)
    fd = create_file(directory_fd, CONTROL_FILE, path, mode=None)
    try:
        write_at(fd, data, 0, path)
        sync(fd, path)
    finally:
        os.close(fd)
    sync_directory(directory_fd, folder)


def rename_all(folder: str, directory_fd: int, moves: FileMoves) -> None:
    """Give the files their names, durably; those that have them already are left.

    Raises: CorruptError where a file has neither name; AccessError; PoisonedError.
    """
    for name, crc in moves.renamed:
        path = os.path.join(folder, name)
        with own_errors(path, "naming the file"):
            try:
                os.rename(name + COMPACTED_END, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
            except FileNotFoundError:
                if _crc(folder, directory_fd, name) != crc:
                    text = f"what was to come in its place, {name}{COMPACTED_END}, is not there"
                    raise CorruptError(path, 0, "compaction", text) from None
    sync_directory(directory_fd, folder)


def remove_control(folder: str, directory_fd: int) -> None:
    """All was done.  Raises: AccessError; PoisonedError."""
    remove_file(directory_fd, CONTROL_FILE, os.path.join(folder, CONTROL_FILE))
    sync_directory(directory_fd, folder)


def read_control(folder: str, directory_fd: int) -> FileMoves | None:
    """What a process was about to do that ended meanwhile; None where it had not begun.  Changes nothing."""
    path = os.path.join(folder, CONTROL_FILE)
    data = _read(folder, directory_fd, CONTROL_FILE, _BYTES_MAX)
    try:
        return None if data is None else parse_control(data, path)
    except CorruptError:
        return None


def parse_control(data: bytes, path: str) -> FileMoves:
    """What a control file says.

    Raises: CorruptError where it is not whole, with the rule `check` where so much is there as there should be.
    """
    header = parse_file_header(data[:FILE_START_BYTES], path, JournalLayout.NATIVE)
    record, _ = parse_record(data, header.layout.header_bytes, header, path)
    found = json.loads(record.body)
    return FileMoves(tuple(map(tuple, found["renamed"])), tuple(map(tuple, found["dead"])))


def finish(folder: str, directory_fd: int) -> None:
    """Do what a compaction was about to do whose process ended.  Raises: AccessError; PoisonedError."""
    moves = read_control(folder, directory_fd)
    if moves is None:
        if os.path.lexists(os.path.join(folder, CONTROL_FILE)):
            remove_control(folder, directory_fd)
        return
    rename_all(folder, directory_fd, moves)
    for name, file_id in moves.dead:
        if _file_id(folder, directory_fd, name) == file_id:
            remove_file(directory_fd, name, os.path.join(folder, name))
    sync_directory(directory_fd, folder)
    remove_control(folder, directory_fd)


def _file_id(folder: str, directory_fd: int, name: str) -> int | None:
    """The id of a file's present use, where it can be known."""
    start = _read(folder, directory_fd, name, FILE_START_BYTES)
    try:
        return None if start is None else parse_file_header(start, os.path.join(folder, name)).file_id
    except BinlogError:
        return None


def _crc(folder: str, directory_fd: int, name: str) -> int | None:
    data = _read(folder, directory_fd, name, _BYTES_MAX)
    return None if data is None else crc32c(data)


def _read(folder: str, directory_fd: int, name: str, size: int) -> bytes | None:
    """What a file begins with; None where there is none."""
    path = os.path.join(folder, name)
    try:
        fd = open_file(directory_fd, name, path, writable=False)
    except NotFoundError:
        return None
    try:
        return read_at(fd, size, 0, path)
    finally:
        os.close(fd)
