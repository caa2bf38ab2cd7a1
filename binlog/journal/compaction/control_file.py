"""The control file: a durable note of the file renames of a compaction.

Its format is that of a native journal file with one ADD record, whose body is JSON.  It is written and synced under
another name before any file is touched.  A control file without its final name belongs to a compaction that changed
nothing.  A damaged one cannot come from a crash.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import NamedTuple

from binlog.errors import BinlogError, CorruptError, NotFoundError
from binlog.format.checksums import crc32c
from binlog.format.journal.block import BLOCK_BYTES
from binlog.format.journal.file_header import (
    FILE_START_BYTES,
    JOURNAL_HEADER,
    FileHeader,
    JournalLayout,
    parse_file_header,
)
from binlog.format.journal.names import COMPACTED_END, CONTROL_FILE, NEW_END, JournalNames
from binlog.format.journal.record import JournalRecord, Kind, pack_record, parse_record
from binlog.format.problem import Problem
from binlog.journal.files.quarantine import move_file
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.files import read_at, sync, write_again

_SALT_BYTES = 8
_BYTES_MAX = 64 << 20
_CHUNK_BYTES = 1 << 20
_UNFINISHED = CONTROL_FILE + NEW_END
_CHANGED = "another program has written to it since an interrupted compaction, which is left undone"


class FileMoves(NamedTuple):
    """The renames and removals of a compaction.

    renamed: names of files to be replaced by the file `NAME.cmp`, with the CRC-32C of all bytes of the new file.
    dead: names of files to be removed, with the file id of the use that is dead.
    replaced: all of these names, with the CRC-32C of each old header.  A header has the id and the salt of one use of
    the file, so another header shows that another program has written to the file since.
    """

    renamed: tuple[tuple[str, int], ...]
    dead: tuple[tuple[str, int], ...]
    replaced: tuple[tuple[str, int], ...] = ()


def write_control(directory: Directory, moves: FileMoves) -> None:
    """Write the control file durably, under a name without effect.  Raises: FullError; AccessError; PoisonedError."""
    header = FileHeader(JournalLayout.NATIVE, 1, os.urandom(_SALT_BYTES))
    start = header.pack()
    body = json.dumps(moves._asdict()).encode()
    data = start + pack_record(JournalRecord(Kind.ADD, body=body), header, len(start))
    directory.write_new(_UNFINISHED, data)


def commit_control(directory: Directory) -> None:
    """Give the control file its name, which commits the compaction.  Raises: AccessError; PoisonedError."""
    directory.rename(_UNFINISHED, CONTROL_FILE)


def rename_all(directory: Directory, moves: FileMoves) -> None:
    """Rename the new files, durably, skipping those renamed already.  Raises: AccessError; PoisonedError."""
    for name, _ in moves.renamed:
        with own_errors(directory.file_path(name), "naming the file"), suppress(FileNotFoundError):
            os.rename(name + COMPACTED_END, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    directory.sync()


def remove_control(directory: Directory) -> None:
    """Remove the control file, named or not, durably.  Raises: AccessError; PoisonedError."""
    for name in (CONTROL_FILE, _UNFINISHED):
        directory.remove(name)
    directory.sync()


def read_control(directory: Directory) -> bytes | None:
    """Return the bytes of the control file, or None if no compaction is in progress.  Raises: AccessError."""
    return _read(directory, CONTROL_FILE, _BYTES_MAX)


def parse_control(data: bytes, path: str, names: JournalNames) -> FileMoves:
    """Parse the bytes of a control file.

    Raises: CorruptError if it is damaged, if no compaction writes such a file, or if a name is not that of a file of
    this journal.
    """
    header = parse_file_header(data[:FILE_START_BYTES], path, JournalLayout.NATIVE)
    record, _ = parse_record(data, header.layout.header_bytes, header, path)
    try:
        content = json.loads(record.body)
        moves = FileMoves(*(tuple((name, number) for name, number in content[key]) for key in FileMoves._fields))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(path, 0, "compaction", f"it is no list of file names and numbers: {error!r}") from error
    both = (*moves.renamed, *moves.dead)
    if not all(type(name) is str and type(number) is int for name, number in (*both, *moves.replaced)):
        raise CorruptError(path, 0, "compaction", "a file name or its number is of the wrong type")
    if len({name for name, _ in both}) < len(both):
        raise CorruptError(path, 0, "compaction", "a file name occurs twice")
    if sorted(name for name, _ in moves.replaced) != sorted(name for name, _ in both):
        raise CorruptError(path, 0, "compaction", "it does not have the header CRC of each file that it replaces")
    for name, _ in both:
        if names.number(name) is None:
            raise CorruptError(path, 0, "compaction", f"{name!r} is not the name of a file of this journal")
    return moves


def roll_forward(directory: Directory, names: JournalNames) -> list[Problem]:
    """Complete a compaction whose process died; return the reasons if that is impossible.

    Does nothing if a new file is damaged, or another program has written to a file that would be replaced.
    Raises: CorruptError if some files are renamed already then, or if the control file is damaged; AccessError;
    PoisonedError.
    """
    problems: list[Problem] = []
    control = read_control(directory)
    if control is not None:
        moves = parse_control(control, directory.file_path(CONTROL_FILE), names)
        problems = find_obstacles(directory, moves)
        if not problems:
            directory.sync()  # the process may have died before the name of the control file was durable
            rename_all(directory, moves)
            for name, file_id in moves.dead:
                if _file_id(directory, name) == file_id:
                    directory.remove(name)
                else:
                    _make_header_durable(directory, name)
            directory.sync()
    if control is not None or directory.has(_UNFINISHED):
        remove_control(directory)  # before the load removes the files that it names
    for problem in problems:
        if problem.path.endswith(COMPACTED_END):
            name = os.path.basename(problem.path)
            move_file(directory, name, name)
    return problems


def _make_header_durable(directory: Directory, name: str) -> None:
    """Make the header of a dead file durable, which an earlier process freed, and perhaps removed.

    If a power cut undid that header after the control file is gone, the dead records would be read again.  All bytes
    stay as they are, because that process may have appended new records to the file.
    """
    path = directory.file_path(name)
    with suppress(NotFoundError), directory.opened(name, writable=True) as fd:
        write_again(fd, BLOCK_BYTES, path)
        sync(fd, path)


def find_obstacles(directory: Directory, moves: FileMoves) -> list[Problem]:
    """Return why a compaction cannot be completed: a new file is damaged, or an old file has changed since.

    Raises: CorruptError if other files are renamed already then, or if a file exists under neither name.
    """
    if changed := _changed_file(directory, moves):
        return [Problem(directory.file_path(changed), 0, "compaction", _CHANGED)]
    return _damaged_files(directory, moves)


def _damaged_files(directory: Directory, moves: FileMoves) -> list[Problem]:
    """Find new files that are damaged.

    Raises: CorruptError if other files are renamed already then, or if a file exists under neither name.
    """
    problems: list[Problem] = []
    is_begun = False
    for name, crc in moves.renamed:
        path = directory.file_path(name)
        waiting = _crc(directory, name + COMPACTED_END)
        if waiting is not None:
            if waiting != crc:
                text = "it is not what the interrupted compaction wrote"
                problems.append(Problem(path + COMPACTED_END, 0, "compaction", text))
        elif _crc(directory, name) == crc:
            is_begun = True
        else:
            text = f"its replacement {name}{COMPACTED_END} is missing"
            raise CorruptError(path, 0, "compaction", text)
    if problems and is_begun:
        raise CorruptError(problems[0].path, 0, "compaction", problems[0].text)
    return problems


def _changed_file(directory: Directory, moves: FileMoves) -> str | None:
    """Return a file to be replaced to which another program has written since; None if there is none.

    Once all files are renamed, this process may have freed and reused the dead ones, so they are not compared.
    Raises: CorruptError if other files are renamed already.
    """
    headers = dict(moves.replaced)
    waiting = [name for name, _ in moves.renamed if directory.has(name + COMPACTED_END)]
    if not waiting:
        return None
    changed = [name for name in (*waiting, *dict(moves.dead)) if _header_crc(directory, name) != headers[name]]
    if not changed:
        return None
    if len(waiting) < len(moves.renamed):
        raise CorruptError(directory.file_path(changed[0]), 0, "compaction", _CHANGED)
    return changed[0]


def header_crc(header: FileHeader) -> int:
    """Return the CRC-32C of a header, as `FileMoves.replaced` has it."""
    return crc32c(header.pack()[: JOURNAL_HEADER.size])


def _header_crc(directory: Directory, name: str) -> int | None:
    start = _read(directory, name, JOURNAL_HEADER.size)
    return None if start is None else crc32c(start)


def _file_id(directory: Directory, name: str) -> int | None:
    """Return the id of a file's current use, or None if it cannot be read."""
    start = _read(directory, name, FILE_START_BYTES)
    try:
        return None if start is None else parse_file_header(start, directory.file_path(name)).file_id
    except BinlogError:
        return None


def _crc(directory: Directory, name: str) -> int | None:
    """Return the CRC-32C of a whole file, or None if it does not exist."""
    path = directory.file_path(name)
    try:
        with directory.opened(name) as fd:
            crc = at = 0
            while chunk := read_at(fd, _CHUNK_BYTES, at, path):
                crc = crc32c(chunk, crc)
                at += len(chunk)
            return crc
    except NotFoundError:
        return None


def _read(directory: Directory, name: str, size: int) -> bytes | None:
    """Return the first bytes of a file, or None if it does not exist."""
    try:
        return directory.read(name, size)
    except NotFoundError:
        return None
