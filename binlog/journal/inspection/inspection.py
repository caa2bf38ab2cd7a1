"""Inspection: reads a whole journal as of one moment, while its owner may append, and checks it.

Files are read oldest first, and appends go to the newest one.  So the bytes read are a state that existed at some
moment, unless a file was reused before it was read; then everything is read again.  Some files are read twice: a file
without a declared end, after records were found in a later file, because it is complete then; and the last file with
records.

`check_journal` reports everything that is wrong, and repairs nothing.  It may run while the owner appends, reclaims and
compacts.  It does not report what the next load repairs by design after a crash: a record that was being written, an
interrupted compaction, open transactions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from binlog.errors import BusyError, CorruptError, GoneError
from binlog.format.checksums import crc32c
from binlog.format.journal.compiled import ColumnScan, scan_file
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.format.problem import Problem, problem_of
from binlog.journal.files.listing import FileUse, FolderView, read_use, view_folder
from binlog.journal.loading.damage import file_problems, is_unfinished_write, size_problems, was_written
from binlog.journal.loading.record_states import RecordStates, StatesInput, missing_record_problems, record_states

_TRIES = 64


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """A file with its records.

    crc: CRC-32C of its records and the bytes between them.
    is_used: it has records, or bytes at the place of the first one.  Other files are free, and may hold any bytes.
    """

    use: FileUse
    columns: ColumnScan
    crc: int
    is_used: bool
    has_end: bool
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A journal at one moment.

    files: oldest first.  states: of their records, in the same order.
    """

    folder: FolderView
    files: tuple[InspectedFile, ...]
    states: RecordStates

    @property
    def layout(self) -> JournalLayout | None:
        """None if no file has a header."""
        return self.folder.layout


def inspect_journal(
    path: str | os.PathLike[str], names: JournalNames, layout: JournalLayout | None = None
) -> Inspection:
    """Read all of a journal, skipping damage, which the result reports.  Takes no lock and writes nothing.

    layout: of files with a four-byte header; by default, recognised by their records.
    Raises: as `view_folder`.
    """
    for _ in range(_TRIES):
        try:
            folder = view_folder(path, names, layout)
            files = _read_all(folder)
        except GoneError:
            continue
        states = record_states(
            (StatesInput(file.use.header.record_id, file.columns) for file in files), folder.unreadable_ids
        )
        return Inspection(folder, files, states)
    raise BusyError(f"the files of {os.path.abspath(path)} are reused faster than they can be read", holder=None)


def records_crc(data: bytes, header: FileHeader, end: int) -> int:
    """Return the CRC-32C of a file's bytes from the first record to `end`."""
    return crc32c(memoryview(data)[header.layout.header_bytes : end])


def _read_all(folder: FolderView) -> tuple[InspectedFile, ...]:
    files: list[InspectedFile] = []
    unsure = 0  # files from this one on may have been read too early
    last: tuple[int, bytes] | None = None
    for number, file in enumerate(folder.files):
        data = read_use(file)
        files.append(_inspect(file, data))
        if files[-1].is_used:
            files[unsure:-1] = [_read_complete(each) for each in files[unsure:-1]]
            unsure, last = number, (number, data)
    if last is not None:
        files[last[0]] = _without_unfinished_tail(*_stable(files[last[0]], last[1]))
    return tuple(files)


def _inspect(file: FileUse, data: bytes) -> InspectedFile:
    header = file.header
    columns = scan_file(data, header)
    has_end = header.parse_end(data) is not None
    is_used = was_written(header, data, columns) or has_end
    problems = list(size_problems(file.path, header, file.file_bytes))
    if is_used:
        problems += file_problems(file.path, header, data, columns)
    return InspectedFile(file, columns, records_crc(data, header, columns.end), is_used, has_end, tuple(problems))


def _read_complete(file: InspectedFile) -> InspectedFile:
    """Read a file again after a later file has records, unless it was complete."""
    return file if file.has_end else _inspect(file.use, read_use(file.use))


def _stable(file: InspectedFile, data: bytes) -> tuple[InspectedFile, bytes]:
    """Return the last file as of one moment, with only those problems that a second read confirms.

    A read that runs beside a write may return the end of the new bytes without their beginning.  A second read returns
    both.
    """
    for _ in range(_TRIES):
        now = read_use(file.use)
        if now == data:
            return file, data
        again = _inspect(file.use, now)
        if again.columns.offset.startswith(file.columns.offset):
            # Bytes that have changed since were being written.
            problems = [each for each in file.problems if data[each.offset : each.end] == now[each.offset : each.end]]
            return replace(file, problems=tuple(problems)), data
        file, data = again, now
    raise GoneError(f"{file.use.path} changes faster than it can be read")


def _without_unfinished_tail(file: InspectedFile, data: bytes) -> InspectedFile:
    """Drop the problem of a record that a crash interrupted: the next load removes it."""
    header = file.use.header
    left = [
        problem
        for problem in file.problems
        if problem.rule != "tail" or not is_unfinished_write(data, problem.offset, header)
    ]
    return replace(file, problems=tuple(left))


def check_journal(
    path: str | os.PathLike[str],
    *,
    prefix: str = "journal",
    extension: str = "jnl",
    layout: JournalLayout | None = None,
) -> list[Problem]:
    """Return every problem of the journal in a folder.

    prefix, extension: of the names of its files.  layout: of files with a four-byte header; by default, recognised by
    their records.
    Reads every byte.  Takes no lock and writes nothing.
    Raises: AccessError if a file cannot be read; NotFoundError if the folder is no journal; ValueError if the files are
    of another layout; BusyError if files are reused faster than they can be read.
    """
    try:
        return find_problems(inspect_journal(path, JournalNames(prefix, extension), layout))
    except CorruptError as error:  # an unknown layout
        return [problem_of(error, os.path.abspath(path))]


def find_problems(journal: Inspection) -> list[Problem]:
    """Return the problems of a journal that was read."""
    problems = list(journal.folder.problems)
    for file in journal.files:
        problems += file.problems
    paths, columns = [file.use.path for file in journal.files], [file.columns for file in journal.files]
    is_any_gone = _is_any_gone(journal) or any(file.problems for file in journal.files)
    return [*problems, *missing_record_problems(paths, columns, journal.states, is_any_gone=is_any_gone)]


def _is_any_gone(journal: Inspection) -> bool:
    """Whether a file may have been removed or reused: some id up to the largest one is missing.

    Ids of free files count as well: a compaction may keep a delete without its record, and by now all later files may
    be free.
    """
    ids = {file.use.header.file_id for file in journal.files}
    return len(ids) < max(ids, default=0)
