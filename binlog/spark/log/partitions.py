"""Divide a read of logs into tasks: large files are split at their indexes, small ones grouped.

The filters of a query bound the ranges, so that the rest of the log is not read.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from binlog import FileStat, Ref, narrow_range, split_range
from binlog.spark.filters import ANY, Filters
from binlog.spark.log.options import ReadOptions, is_glob, is_url
from binlog.spark.log.positions import resolve
from binlog.spark.log.snapshot import FileRange, take_snapshot
from binlog.spark.remote.remote_log import remote_files, resolve_remote, split_remote
from binlog.spark.tasks import OVERSHOOT, Task, pack_tasks, target_bytes


class WantedRecords(Filters):
    """The bounds of a query's filters on a log."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("number", "offset", "sequence", "time")

    def narrow_range(self, path: str, number: int, start: int, end: int) -> tuple[int, int]:
        """Return the part of a range of a file that can contain wanted records."""
        offsets, sequences, times = (self.of(column) for column in ("offset", "sequence", "time"))
        if offsets == sequences == times == ANY:
            return start, end
        earliest, latest = times
        times_ns = (
            None if earliest is None else earliest * 1000,
            None if latest is None else latest * 1000 + 999,  # a row's time is truncated to microseconds
        )
        return narrow_range(path, number, start, end, offsets=offsets, sequences=sequences, times_ns=times_ns)


def directories(options: ReadOptions) -> list[str]:
    """Return the directories of the logs to read, each once.  Raises: ValueError if a glob matches none."""
    found: dict[str, None] = {}
    for path in options.paths:
        # The name of a directory may contain such a character.
        several = is_glob(path) and not os.path.isdir(path)
        matching = sorted(filter(os.path.isdir, glob.glob(path))) if several else [path]
        if not matching:
            raise ValueError(f"binlog: no such directory: {path}")
        found.update(dict.fromkeys(matching))
    return list(found)


def plan(options: ReadOptions, wanted: WantedRecords) -> list[Task[FileRange]]:
    """Return the tasks of a batch read, for the current contents of the logs; a stream calls `ranges_between`.

    Damage that a task finds may be a row; damage that this function finds is an error.
    Raises: ValueError, NotFoundError, GoneError, AccessError, CorruptError, VersionError.
    """
    ranges: list[FileRange] = []
    for path in directories(options):
        remote = is_url(path)
        files = remote_files(path, open_too=options.include_open_file) if remote else take_snapshot(path)
        if files:
            find = resolve_remote if remote else resolve
            start, end = (
                find(position, path, files, fail_on_data_loss=options.fail_on_data_loss)
                for position in (options.start, options.end)
            )
            ranges += ranges_between(path, files, start, end, open_too=options.include_open_file)
    return divide([part for each in ranges if (part := narrowed(each, wanted)) is not None], options)


def ranges_between(
    path: str, files: Sequence[FileStat], start: Ref, end: Ref, *, open_too: bool = True
) -> Iterator[FileRange]:
    """Yield the non-empty ranges between two refs, file by file."""
    for file in files:
        first = max(file.first_offset, start.offset if file.number == start.number else 0)
        last = min(file.tail, end.offset) if file.number == end.number else file.tail
        if start.number <= file.number <= end.number and first < last and (file.closed or open_too):
            yield FileRange(path, file.number, first, last, file.uuid)


def narrowed(part: FileRange, wanted: WantedRecords) -> FileRange | None:
    """Return the range without the records that the index excludes, or None if nothing is left."""
    if not wanted.allows("number", part.number):
        return None
    if is_url(part.path):
        return part  # the index would have to be read over the network
    start, end = wanted.narrow_range(part.path, part.number, part.start, part.end)
    return replace(part, start=start, end=end) if start < end else None


def divide(ranges: Sequence[FileRange], options: ReadOptions) -> list[Task[FileRange]]:
    """Return tasks of about the size asked for."""
    target = target_bytes(ranges, options)
    return pack_tasks(_pieces(ranges, target), target)


def _pieces(ranges: Iterable[FileRange], target: int) -> Iterator[FileRange]:
    for part in ranges:
        if part.size <= target * OVERSHOOT:
            yield part
        else:
            cut = split_remote if is_url(part.path) else split_range
            for start, end in cut(part.path, part.number, part.start, part.end, bytes_max=target):
                yield replace(part, start=start, end=end)
