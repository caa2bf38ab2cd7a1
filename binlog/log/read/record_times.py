"""RecordTimes: when the records of a log were appended, by the indexes of its files."""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import closing
from typing import NamedTuple

from binlog.errors import GoneError, NotFoundError
from binlog.log.directory import LogDirectory
from binlog.log.read.file_reader import FileReader

# Of the records whose times are read together; some 256 entries of an index.
_AHEAD_BYTES = 16 << 20


class TimedRange(NamedTuple):
    """The records before the offset `end`, from the end of the range before it on, were in the file at `time_ns`."""

    end: int
    time_ns: int


class _Known(NamedTuple):
    """What an index says of the records of a file from `start` on."""

    number: int
    start: int
    ranges: list[TimedRange]

    def covers(self, number: int, start: int, end: int) -> bool:
        return number == self.number and self.start <= start and bool(self.ranges) and end <= self.ranges[-1].end


class RecordTimes:
    """The times of a log's records: `Entry.time` of many, in few reads of the index.

    path: the log's directory.
    Holds the times of some 16 MiB of records.  Threads may share it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._known = _Known(0, 0, [])

    def ranges(self, number: int, start: int, end: int) -> list[TimedRange]:
        """Return the ranges of the records of a file from the one at the offset `start` up to the last before `end`.

        They cover all of these records, and their times never decrease, unless the index is damaged.  Times are of a
        commit, or of 64 KiB of records together; records that the index does not cover yet have the time of the file's
        last write.
        Raises: GoneError if the file was removed; AccessError, CorruptError.
        """
        if start >= end:
            return []
        known = self._known
        if known.covers(number, start, end):
            return _cut(known.ranges, start, end)
        with LogDirectory(self._path) as directory:
            try:
                file = FileReader(directory, number, record_bytes_max=0)
            except NotFoundError as error:
                raise GoneError(f"{os.fspath(self._path)}: file {number} was removed") from error
            with closing(file):
                found = [TimedRange(*each) for each in file.range_times(start, max(end, start + _AHEAD_BYTES))]
                self._known = _Known(number, start, found)
                ranges = _cut(found, start, end)
                if not ranges or ranges[-1].end < end:
                    ranges.append(TimedRange(end, file.unindexed_time_ns))
        return ranges


def _cut(ranges: list[TimedRange], start: int, end: int) -> list[TimedRange]:
    """Return the ranges from the one with `start` on; the last one ends at `end` at the latest."""
    first = bisect_right(ranges, start, key=lambda each: each.end)
    last = bisect_right(ranges, end - 1, first, key=lambda each: each.end)
    found = ranges[first : last + 1]
    if found and found[-1].end > end:
        found[-1] = found[-1]._replace(end=end)
    return found
