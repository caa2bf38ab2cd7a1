"""What lies in a journal, and what became of it, while its owner goes on.

What a record came to depends on all others, so all files are gone through at once, and of each is kept what lets it be
read by itself later: the states of its records, and a CRC that tells, in every layout, whether they are still those.

What is read of several files is of one moment only where the earlier ones had nothing more when the later ones were
read: so a file that the owner may have gone on in, while later ones were read that have records, is read again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from binlog.errors import BusyError, GoneError
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.format.problem import Problem
from binlog.journal.damage import file_problems
from binlog.journal.look import Look, SeenFile, look, read_seen
from binlog.journal.odd_records import odd_problems
from binlog.journal.record_states import FileColumns, file_columns, record_states
from binlog.storage.checksum import crc32c
from binlog.storage.journal_records import Scan

_TRIES = 16
_DEFLATE_LEVEL = 1


@dataclass(frozen=True, slots=True)
class FilePart:
    """The records of one use of a file, for who reads them later.

    folder: absolute.  start: what the file begins with.  end: where the last record ends.  crc: of
    all records.  states: a RecordState for each of them, deflated.
    """

    folder: str
    name: str
    header: FileHeader
    start: bytes
    end: int
    crc: int
    states: bytes

    @property
    def path(self) -> str:
        """Where it lies."""
        return os.path.join(self.folder, self.name)


@dataclass(frozen=True, slots=True)
class FileSurvey:
    """What lies in a file, for who wants to know whether to read it.

    kinds, states: each that there is, once.  record_ids, tx_ids: the lowest and the highest, with 0 for records that
    have none.
    """

    part: FilePart
    kinds: bytes
    states: bytes
    record_ids: tuple[int, int]
    tx_ids: tuple[int, int]


@dataclass(frozen=True, slots=True)
class JournalSurvey:
    """What lies in a journal.  files: those with records, oldest first.  problems: what is damaged, or missing."""

    files: tuple[FileSurvey, ...]
    problems: tuple[Problem, ...]


def survey_journal(
    path: str | os.PathLike[str],
    *,
    prefix: str = "journal",
    extension: str = "jnl",
    layout: JournalLayout | None = None,
) -> JournalSurvey:
    """Go through all records, as they are at one moment; takes no lock, and writes nothing.

    layout: of files that say nothing of it; JBM unless told.
    Takes some forty bytes of memory for each record meanwhile, and twice the largest file.
    Raises: NotFoundError where there is no journal; AccessError; ValueError where the files say that the layout is
    another one; BusyError where its owner goes on faster than that.
    """
    names = JournalNames(prefix, extension)
    for _ in range(_TRIES):
        try:
            seen = look(path, names, layout)
            return _result(seen, _read_all(seen.files))
        except GoneError:
            continue
    raise BusyError(f"the files of {os.path.abspath(path)} are used again faster than they are read", holder=None)


def records_crc(data: bytes, header: FileHeader, end: int) -> int:
    """Of a file's bytes, where its records end."""
    return crc32c(memoryview(data)[header.layout.header_bytes : end])


@dataclass(frozen=True, slots=True)
class _Read:
    """A file as it was read.  behind: what it had behind its last record, as a CRC."""

    seen: SeenFile
    columns: FileColumns
    crc: int
    behind: int
    is_ended: bool
    problems: tuple[Problem, ...]


def _read(seen: SeenFile) -> _Read:
    data = read_seen(seen)
    header = seen.header
    columns = file_columns(data, header)
    end = columns.end
    scan = Scan([], columns.record_count, end, columns.gaps, columns.doubts, 0)
    is_ended = header.parse_end(data) is not None
    # One that waits to be used again may hold anything.
    is_used = bool(columns.record_count or columns.doubts or is_ended)
    problems = tuple(file_problems(seen.path, header, data, scan)) if is_used else ()
    return _Read(seen, columns, records_crc(data, header, end), crc32c(memoryview(data)[end:]), is_ended, problems)


def _read_all(seen: Sequence[SeenFile]) -> list[_Read]:
    """All files, as they are at one moment.  Raises: GoneError where one is used again meanwhile."""
    files = [_read(each) for each in seen]
    used = [place for place, file in enumerate(files) if file.columns.record_count]
    for place in used[:-1]:
        if not files[place].is_ended:
            files[place] = _read(seen[place])
    if used and any(problem.rule == "tail" for problem in files[used[-1]].problems):
        files[used[-1]] = _without_news(files[used[-1]])
    return files


def _without_news(before: _Read) -> _Read:
    """The last file with records again, behind which something was found that is no record.

    Where that is another thing by now, its owner is writing, and nothing is wrong.
    """
    file = _read(before.seen)
    if (file.columns.end, file.behind) == (before.columns.end, before.behind):
        return file
    return replace(file, problems=tuple(problem for problem in file.problems if problem.rule != "tail"))


def _result(seen: Look, files: Sequence[_Read]) -> JournalSurvey:
    found = record_states([file.columns for file in files], seen.lost_ids)
    surveys = [_survey(file, states) for file, states in zip(files, found.states, strict=True) if states]
    problems = [
        *seen.problems,
        *(problem for file in files for problem in file.problems),
        *odd_problems([file.seen.path for file in files], [file.columns for file in files], found),
    ]
    return JournalSurvey(tuple(surveys), tuple(problems))


def _survey(file: _Read, states: bytes) -> FileSurvey:
    seen, columns = file.seen, file.columns
    part = FilePart(
        seen.folder, seen.name, seen.header, seen.start, columns.end, file.crc, zlib.compress(states, _DEFLATE_LEVEL)
    )
    return FileSurvey(
        part, bytes(set(columns.kind)), bytes(set(states)), _bounds(columns.record_id), _bounds(columns.tx_id)
    )


def _bounds(column: bytes) -> tuple[int, int]:
    numbers = memoryview(column).cast("q")
    return min(numbers), max(numbers)
