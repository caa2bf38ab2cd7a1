"""What a log holds at one moment, though others append to it and cut it over meanwhile.

Headers are read one after the other, so the first ones read are older.  What was read is of one moment where every file
but the last was closed when it was looked at: all that lies in a later file was appended after that.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import binlog
from binlog import FileStat
from binlog.errors import CorruptError

# Where the faults below are said to be: in how one file's header agrees with the next one's.
_HEADER_OFFSET = 0


@dataclass(frozen=True)
class FileRange:
    """The records of one file from offset `start` up to offset `end`, both bounds of records.

    path: the log's directory, or its URL.  uuid: of the log, where the file has one.
    """

    path: str
    number: int
    start: int
    end: int
    uuid: str | None

    @property
    def size(self) -> int:
        """In bytes."""
        return self.end - self.start


def take_snapshot(path: str | os.PathLike[str]) -> tuple[FileStat, ...]:
    """The files of the log, with everything up to the last one's tail in them and nothing that came later.

    Reads headers only, takes no lock.
    Raises: AccessError, CorruptError, VersionError.
    """
    before: CorruptError | None = None
    while True:
        files = binlog.stat(path).files
        fault = fault_between(files) or _lost_end(files)
        if fault is None:
            return files
        # A cutover, or retention, between the first file looked at and the last; by now it is over.  Where the same
        # file is found so again, it is not that.
        if before is not None and (before.path, before.rule) == (fault.path, fault.rule):
            raise fault
        before = fault


def fault_between(files: Sequence[FileStat]) -> CorruptError | None:
    """What cannot be so in a log: of a file and the one after it."""
    for file, after in pairwise(files):
        if file.closed and file.next_number != after.number:
            return _missing_next(file)
        if not file.closed and (after.closed or after.tail > after.first_offset):
            text = f"file {file.number} is open, and is followed by file {after.number}, which is in use"
            return CorruptError(file.path, _HEADER_OFFSET, "two-open", text)
        if file.uuid and after.uuid and file.uuid != after.uuid:
            text = "the file belongs to another log than the one before it"
            return CorruptError(after.path, _HEADER_OFFSET, "uuid", text)
        if missing := _missing_between(file, after):
            text = f"{missing} records are missing between file {file.number} and file {after.number}"
            text = f"{text}; copy the log again with `binlog backup`, or `binlog repair` puts fillers in their places"
            return CorruptError(file.path, _HEADER_OFFSET, "gap", text)
    return None


def _missing_between(file: FileStat, after: FileStat) -> int:
    if not file.closed or file.first_sequence is None or file.record_count is None or after.first_sequence is None:
        return 0
    return max(after.first_sequence - file.first_sequence - file.record_count, 0)


def _lost_end(files: Sequence[FileStat]) -> CorruptError | None:
    return _missing_next(files[-1]) if files and files[-1].closed else None


def _missing_next(file: FileStat) -> CorruptError:
    text = f"file {file.number} is closed and leads to file {file.next_number}, which is not there"
    return CorruptError(file.path, _HEADER_OFFSET, "missing-next", text)
