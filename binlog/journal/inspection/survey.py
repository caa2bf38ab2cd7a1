"""What lies in a journal, and what became of it, while its owner goes on.

What a record came to depends on all others, so all files are gone through at once, and of each is kept what lets it be
read by itself later: the states of its records, and a CRC that tells, in every layout, whether they are still those.

Reading the records of a journal's file as columns, with what became of them, without an object for any.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from binlog._codec import gather_bodies
from binlog.errors import NotFoundError
from binlog.format.journal.compiled import COLUMNS, ColumnScan, scan_columns
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.format.problem import Problem
from binlog.journal.inspection.inspection import InspectedFile, find_problems, inspect_journal, records_crc
from binlog.storage.directory import Directory

_DEFLATE_LEVEL = 1


@dataclass(frozen=True, slots=True)
class FilePart:
    """The records of one use of a file, for who reads them later.

    folder: absolute.  start: what the file begins with.  end: where the last record ends.  crc: CRC-32C of all before
    that, but of the header.  states: a RecordState for each record, deflated.
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


class FileSurvey:
    """What lies in a file, for who wants to know whether to read it."""

    def __init__(self, part: FilePart, columns: ColumnScan, states: bytes) -> None:
        self.part = part
        self._columns = columns
        self._states = states

    @property
    def kinds(self) -> bytes:
        """Each kind of its records, once."""
        return bytes(set(self._columns.kind))

    @property
    def states(self) -> bytes:
        """Each RecordState of them, once."""
        return bytes(set(self._states))

    @property
    def record_ids(self) -> tuple[int, int]:
        """The lowest and the highest id; 0 is that of a record that has none."""
        return _bounds(self._columns.record_id)

    @property
    def tx_ids(self) -> tuple[int, int]:
        """The same of transactions."""
        return _bounds(self._columns.tx_id)


@dataclass(frozen=True, slots=True)
class JournalSurvey:
    """What lies in a journal.

    files: those with records, oldest first.  problems: what is damaged, or missing.
    layout: None where there is no file.  file_bytes_max: of the largest file.
    """

    files: tuple[FileSurvey, ...]
    problems: tuple[Problem, ...]
    layout: JournalLayout | None
    file_bytes_max: int


def survey_journal(
    path: str | os.PathLike[str],
    *,
    prefix: str = "journal",
    extension: str = "jnl",
    layout: JournalLayout | None = None,
) -> JournalSurvey:
    """Go through all records, as they are at one moment; takes no lock, and writes nothing.

    layout: of files that say nothing of it, unless their records do.
    Takes some sixty bytes of memory for each record, most of them until the survey is let go of, and the largest file.
    Raises: NotFoundError where there is no journal; AccessError; ValueError where the files say that the layout is
    another one; BusyError where its owner goes on faster than that.
    """
    found = inspect_journal(path, JournalNames(prefix, extension), layout)
    surveys = [_survey(file, states) for file, states in zip(found.files, found.states.states, strict=True) if states]
    file_bytes_max = max((file.seen.file_bytes for file in found.files), default=0)
    return JournalSurvey(tuple(surveys), tuple(find_problems(found)), found.look.layout, file_bytes_max)


def _survey(file: InspectedFile, states: bytes) -> FileSurvey:
    seen, columns = file.seen, file.columns
    part = FilePart(
        seen.folder, seen.name, seen.header, seen.start, columns.end, file.crc, zlib.compress(states, _DEFLATE_LEVEL)
    )
    return FileSurvey(part, columns, states)


def _bounds(column: bytes) -> tuple[int, int]:
    numbers = memoryview(column).cast("q")
    return min(numbers), max(numbers)


class JournalColumns:
    """Some records of a file, as columns that have a value for each of them, in buffers as Arrow has them.

    columns: `offset`, `record_bytes`, `tx_id`, `record_id`, `body_offset`: int64.  `body_bytes`,
    `counts_bytes`: int32.  `kind`,
    `user_type`, `state`: a byte.
    data: where the bodies are.
    """

    def __init__(self, data: bytes | bytearray, count: int, columns: Mapping[str, bytes]) -> None:
        self.data = data
        self.count = count
        self.columns = columns

    def bodies(self, offsets: Any, sizes: Any, first: int, bytes_max: int) -> tuple[int, bytes, bytes]:
        """Bodies of some of them: how many, their bounds, int32 and one more, and their bytes in one run.

        offsets, sizes: `body_offset` and `body_bytes` of those.  As many from the first-th on as are `bytes_max`
        together, and one at least.
        """
        return gather_bodies(self.data, offsets, sizes, first, bytes_max)


class PartReader:
    """Gives the records of a part, some ten thousand at a time.  Its file is read when it is made."""

    def __init__(self, part: FilePart) -> None:
        """Raises: NotFoundError where the file is not what it was; AccessError."""
        self._part = part
        self._data = _read_part(part)

    def __iter__(self) -> Iterator[JournalColumns]:
        states = zlib.decompress(self._part.states)
        at = 0
        for scan in scan_columns(self._data, self._part.header):
            if count := scan.record_count:
                columns = {name: getattr(scan, name) for name in COLUMNS}
                yield JournalColumns(scan.data, count, {**columns, "state": states[at : at + count]})
            at += count


def _read_part(part: FilePart) -> bytes:
    with Directory(part.folder) as directory:
        data = directory.read(part.name, part.end)
    is_same = len(data) == part.end and data.startswith(part.start)
    if not is_same or records_crc(data, part.header, part.end) != part.crc:
        raise NotFoundError(f"{part.path} is used for something else, or was compacted")
    return data
