"""Take a consistent snapshot of a log's files while others append and cut over.

Headers are read one after the other, the oldest file first.  The snapshot is consistent if every file but the last was
closed when its header was read: then all records in a later file were appended afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import binlog
from binlog import FileStat
from binlog.errors import CorruptError

# The offset of the errors below, which are about the headers.
_HEADER_OFFSET = 0


@dataclass(frozen=True)
class FileRange:
    """The records of one file from offset `start` to offset `end`, both the start of a record or the end of the file.

    path: the log's directory, or its URL.  uuid: of the log, if the file has one.
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
    """Return the files of the log at one moment: all records up to the last file's tail, and none after it.

    Reads headers only, and takes no lock.
    Raises: AccessError, CorruptError, VersionError.
    """
    before: CorruptError | None = None
    while True:
        files = binlog.stat(path).files
        fault = fault_between(files) or _lost_end(files)
        if fault is None:
            return files
        # A cutover or retention may have run while the headers were read; by the second read it is over.  If the same
        # fault is found again, the log is damaged.
        if before is not None and (before.path, before.rule) == (fault.path, fault.rule):
            raise fault
        before = fault


def fault_between(files: Sequence[FileStat]) -> CorruptError | None:
    """Return an inconsistency between a file and the next one, or None."""
    for file, after in pairwise(files):
        if file.closed and file.next_number != after.number:
            return _missing_next(file)
        if not file.closed and (after.closed or after.tail > after.first_offset):
            text = f"file {file.number} is open, but file {after.number} after it is in use"
            return CorruptError(file.path, _HEADER_OFFSET, "two-open", text)
        if file.uuid and after.uuid and file.uuid != after.uuid:
            text = "the file belongs to another log than the one before it"
            return CorruptError(after.path, _HEADER_OFFSET, "uuid", text)
        if missing := _missing_between(file, after):
            text = f"{missing} records are missing between file {file.number} and file {after.number}"
            text = f"{text}; copy the log again with `binlog backup`, or let `binlog repair` fill the gap"
            return CorruptError(file.path, _HEADER_OFFSET, "gap", text)
    return None


def _missing_between(file: FileStat, after: FileStat) -> int:
    if not file.closed or file.first_sequence is None or file.record_count is None or after.first_sequence is None:
        return 0
    return max(after.first_sequence - file.first_sequence - file.record_count, 0)


def _lost_end(files: Sequence[FileStat]) -> CorruptError | None:
    return _missing_next(files[-1]) if files and files[-1].closed and not files[-1].shipped else None


def _missing_next(file: FileStat) -> CorruptError:
    text = f"file {file.number} is closed, but its next file, {file.next_number}, is missing"
    return CorruptError(file.path, _HEADER_OFFSET, "missing-next", text)
