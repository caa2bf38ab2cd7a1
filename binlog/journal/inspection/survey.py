"""A survey of a journal: for each file, what is needed to read its records later, as columns.

The state of a record depends on all files, so the survey reads them all at once.  For each file it keeps the states of
the records, and a CRC that shows, in every layout, whether the file still has these records.  `PartReader` then reads
one file, without an object for each record.
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
    """The records of one use of a file, to be read later by `PartReader`.

    folder: absolute.  start: the first bytes of the file.  end: the end of the last record.
    crc: CRC-32C of the bytes from the first record to the end.  states: a RecordState for each record, deflated.
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
        """The path of the file."""
        return os.path.join(self.folder, self.name)


class FileSurvey:
    """A summary of a file's records, to decide whether to read them."""

    def __init__(self, part: FilePart, columns: ColumnScan, states: bytes) -> None:
        self.part = part
        self._columns = columns
        self._states = states

    @property
    def kinds(self) -> bytes:
        """The kinds of its records, each once."""
        return bytes(set(self._columns.kind))

    @property
    def states(self) -> bytes:
        """The states of its records, each once, as RecordState."""
        return bytes(set(self._states))

    @property
    def record_ids(self) -> tuple[int, int]:
        """The lowest and the highest record id; a record without one counts as 0."""
        return _bounds(self._columns.record_id)

    @property
    def tx_ids(self) -> tuple[int, int]:
        """The lowest and the highest transaction id; a record without one counts as 0."""
        return _bounds(self._columns.tx_id)


@dataclass(frozen=True, slots=True)
class JournalSurvey:
    """A survey of all files.

    files: those with records, oldest first.  problems: damaged or missing records.
    layout: None if no file has a header.  file_bytes_max: size of the largest file.
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
    """Survey all records as of one moment; takes no lock and writes nothing.

    layout: of files with a four-byte header; by default, recognised by their records.
    Takes memory for the largest file, and some sixty bytes for each record, most of them as long as the survey exists.
    Raises: NotFoundError if the folder is no journal; AccessError; ValueError if the files are of another layout;
    BusyError if the owner reuses files faster than they can be read.
    """
    journal = inspect_journal(path, JournalNames(prefix, extension), layout)
    surveys = [
        _survey(file, states) for file, states in zip(journal.files, journal.states.states, strict=True) if states
    ]
    file_bytes_max = max((file.use.file_bytes for file in journal.files), default=0)
    return JournalSurvey(tuple(surveys), tuple(find_problems(journal)), journal.folder.layout, file_bytes_max)


def _survey(file: InspectedFile, states: bytes) -> FileSurvey:
    use, columns = file.use, file.columns
    part = FilePart(
        use.folder, use.name, use.header, use.start, columns.end, file.crc, zlib.compress(states, _DEFLATE_LEVEL)
    )
    return FileSurvey(part, columns, states)


def _bounds(column: bytes) -> tuple[int, int]:
    numbers = memoryview(column).cast("q")
    return min(numbers), max(numbers)


class JournalColumns:
    """Some records of a file as columns, in buffers as Arrow has them.

    columns: `offset`, `record_bytes`, `tx_id`, `record_id` and `body_offset` are int64; `body_bytes` and `counts_bytes`
    int32; `kind`, `user_type` and `state` one byte.
    data: the bytes that body_offset refers to.
    """

    def __init__(self, data: bytes | bytearray, count: int, columns: Mapping[str, bytes]) -> None:
        self.data = data
        self.count = count
        self.columns = columns

    def bodies(self, offsets: Any, sizes: Any, first: int, bytes_max: int) -> tuple[int, bytes, bytes]:
        """Gather bodies: return their count, their bounds (int32, one more than bodies), and their bytes in one run.

        offsets, sizes: `body_offset` and `body_bytes` of the wanted records.  Starts with the body `first`, and takes
        bodies up to `bytes_max` in total, but at least one.
        """
        return gather_bodies(self.data, offsets, sizes, first, bytes_max)


class PartReader:
    """Iterates over the records of a part, some ten thousand at a time.  Reads the file when it is created."""

    def __init__(self, part: FilePart) -> None:
        """Raises: NotFoundError if the file no longer has these records; AccessError."""
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
        raise NotFoundError(f"{part.path} was reused or compacted")
    return data
