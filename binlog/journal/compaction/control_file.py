"""What a compaction is about to do with files, written down so that it is done even where its process ends.

The file has a header and one ADD record as a file of a journal in our layout, whatever the journal's own; its body is
JSON.  It is made under another name, and is on the disk before the first file is touched: one that has not got its name
was of a compaction that did nothing yet, and one that is damaged was not left so by any process that ended.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import NamedTuple

from binlog.errors import BinlogError, CorruptError, NotFoundError
from binlog.format.checksums import crc32c
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
from binlog.storage.files import read_at

_SALT_BYTES = 8
_BYTES_MAX = 64 << 20
_CHUNK_BYTES = 1 << 20
_UNFINISHED = CONTROL_FILE + NEW_END
_CHANGED = "another program wrote it after a compaction began, which was interrupted, and is left undone"


class FileMoves(NamedTuple):
    """What a compaction does with files.

    renamed: names that get the file which is written beside each (`NAME.cmp`), in place of what has the name; and the
    CRC-32C of all its bytes.
    dead: names of files, and the ids of the use in which nobody needs them any more.
    replaced: names of all of these, and the CRC-32C of the header that each file had.  A header has the id and the
    salt of one use of the file, so a file with another header was written since by another program.
    """

    renamed: tuple[tuple[str, int], ...]
    dead: tuple[tuple[str, int], ...]
    replaced: tuple[tuple[str, int], ...] = ()


def write_control(directory: Directory, moves: FileMoves) -> None:
    """Write it down, durably, under a name that means nothing yet.  Raises: FullError; AccessError; PoisonedError."""
    header = FileHeader(JournalLayout.NATIVE, 1, os.urandom(_SALT_BYTES))
    start = header.pack()
    body = json.dumps(moves._asdict()).encode()
    data = start + pack_record(JournalRecord(Kind.ADD, body=body), header, len(start))
    directory.write_new(_UNFINISHED, data)


def name_control(directory: Directory) -> None:
    """From here on it is done, by this process or by the next one that loads.  Raises: AccessError; PoisonedError."""
    directory.rename(_UNFINISHED, CONTROL_FILE)


def rename_all(directory: Directory, moves: FileMoves) -> None:
    """Give the files their names, durably; those that have them are left.  Raises: AccessError; PoisonedError."""
    for name, _ in moves.renamed:
        with own_errors(directory.file_path(name), "naming the file"), suppress(FileNotFoundError):
            os.rename(name + COMPACTED_END, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    directory.sync()


def remove_control(directory: Directory) -> None:
    """All was done.  Raises: AccessError; PoisonedError."""
    for name in (CONTROL_FILE, _UNFINISHED):
        directory.remove(name)
    directory.sync()


def read_control(directory: Directory) -> bytes | None:
    """The control file's bytes; None if no compaction goes on, or was interrupted.  Raises: AccessError."""
    return _read(directory, CONTROL_FILE, _BYTES_MAX)


def parse_control(data: bytes, path: str, names: JournalNames) -> FileMoves:
    """What a control file says.

    Raises: CorruptError if it is damaged, or says what no compaction writes, or names what is no file of the journal.
    """
    header = parse_file_header(data[:FILE_START_BYTES], path, JournalLayout.NATIVE)
    record, _ = parse_record(data, header.layout.header_bytes, header, path)
    try:
        found = json.loads(record.body)
        moves = FileMoves(*(tuple((name, number) for name, number in found[key]) for key in FileMoves._fields))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(path, 0, "compaction", f"it does not say what becomes of which files: {error!r}") from error
    both = (*moves.renamed, *moves.dead)
    if not all(type(name) is str and type(number) is int for name, number in (*both, *moves.replaced)):
        raise CorruptError(path, 0, "compaction", "not each name has a number")
    if len({name for name, _ in both}) < len(both):
        raise CorruptError(path, 0, "compaction", "a name is there twice")
    if sorted(name for name, _ in moves.replaced) != sorted(name for name, _ in both):
        raise CorruptError(path, 0, "compaction", "it does not say what each file was that it replaces")
    for name, _ in both:
        if names.number(name) is None:
            raise CorruptError(path, 0, "compaction", f"{name!r} is no name of a file of this journal")
    return moves


def finish(directory: Directory, names: JournalNames) -> list[Problem]:
    """Do what a compaction was about to do whose process ended; what is told of it.

    If a file that it wrote is damaged, or another program wrote to one that it replaces, nothing of it is done.
    Raises: CorruptError if that is so and some were renamed already, or if the control file is damaged; AccessError;
    PoisonedError.
    """
    problems: list[Problem] = []
    control = read_control(directory)
    if control is not None:
        moves = parse_control(control, directory.file_path(CONTROL_FILE), names)
        problems = obstacles(directory, moves)
        if not problems:
            directory.sync()  # who named it may have died before its name was durable
            rename_all(directory, moves)
            for name, file_id in moves.dead:
                if _file_id(directory, name) == file_id:
                    directory.remove(name)
            directory.sync()
    if control is not None or directory.has(_UNFINISHED):
        remove_control(directory)  # before what it names, which a load removes
    for problem in problems:
        if problem.path.endswith(COMPACTED_END):
            name = os.path.basename(problem.path)
            move_file(directory, name, name)
    return problems


def obstacles(directory: Directory, moves: FileMoves) -> list[Problem]:
    """Why nothing is done of what a compaction was about to do: a file that it wrote is damaged, or one changed since.

    Raises: CorruptError where that is so, and others were renamed already; or where one has neither name.
    """
    if changed := _changed_file(directory, moves):
        return [Problem(directory.file_path(changed), 0, "compaction", _CHANGED)]
    return _damaged_files(directory, moves)


def _damaged_files(directory: Directory, moves: FileMoves) -> list[Problem]:
    """Files that are to be renamed, and are not what was written.

    Raises: CorruptError where that is so, and others were renamed already; or where one has neither name.
    """
    problems: list[Problem] = []
    is_begun = False
    for name, crc in moves.renamed:
        path = directory.file_path(name)
        waiting = _crc(directory, name + COMPACTED_END)
        if waiting is not None:
            if waiting != crc:
                text = "it is not what a compaction wrote, which was interrupted"
                problems.append(Problem(path + COMPACTED_END, 0, "compaction", text))
        elif _crc(directory, name) == crc:
            is_begun = True
        else:
            text = f"what was to come in its place, {name}{COMPACTED_END}, is not there"
            raise CorruptError(path, 0, "compaction", text)
    if problems and is_begun:
        raise CorruptError(problems[0].path, 0, "compaction", problems[0].text)
    return problems


def _changed_file(directory: Directory, moves: FileMoves) -> str | None:
    """A file that is to be replaced and that another program wrote since; None if there is none.

    This process may have freed dead files once all were renamed, so then they say nothing.
    Raises: CorruptError if others were renamed already.
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
    """CRC-32C of a file's header, as `FileMoves.replaced` has it."""
    return crc32c(header.pack()[: JOURNAL_HEADER.size])


def _header_crc(directory: Directory, name: str) -> int | None:
    start = _read(directory, name, JOURNAL_HEADER.size)
    return None if start is None else crc32c(start)


def _file_id(directory: Directory, name: str) -> int | None:
    """The id of a file's present use, where it can be known."""
    start = _read(directory, name, FILE_START_BYTES)
    try:
        return None if start is None else parse_file_header(start, directory.file_path(name)).file_id
    except BinlogError:
        return None


def _crc(directory: Directory, name: str) -> int | None:
    """CRC-32C of a whole file; None where there is none."""
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
    """What a file begins with; None where there is none."""
    try:
        return directory.read(name, size)
    except NotFoundError:
        return None
