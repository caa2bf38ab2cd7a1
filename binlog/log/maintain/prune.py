"""Retention: removing the oldest closed files of a log.

Invariants
- Files go oldest first, each durably before the next is touched: whatever happens in between, what stays is a log
  without a gap.
- A file goes only under its own lock, seen closed there, and only while the file that it leads to is there.
- The newest file of ours stays: it says whose log this is, and from where its records are counted.
- Where other programs write, more stays: see closed_files.py.
- Of a file and its archive, where both are there, the file goes first: what is left is whole at any moment.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from binlog.errors import BusyError, NotFoundError
from binlog.format.names import (
    archive_file_name,
    damaged_file_range,
    index_file_name,
    index_file_number,
    log_file_name,
    unfinished_archive_name,
    unfinished_archive_number,
)
from binlog.format.record import Ref
from binlog.format.values import settle
from binlog.log.directory import LogDirectory
from binlog.log.files.closed_files import ClosedFile, ListedFile, closed_files, is_written, list_files
from binlog.log.files.header import read_header


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """A file that was removed, or would be.

    names: its own, and those of what went with it, in the log's directory.
    record_count: None where another program made the file.
    closed_ns: when it was closed, as far as can be told.
    disk_bytes: what all of that took on the disk.
    """

    number: int
    names: tuple[str, ...]
    record_count: int | None
    closed_ns: int
    disk_bytes: int


@dataclass(frozen=True, kw_only=True)
class Retention:
    """What is to be kept; None where it does not matter.  A file goes where all that is given allows it."""

    keep_bytes: int | None = None
    keep_seconds: float | None = None
    before: Ref | None = None

    def __post_init__(self) -> None:
        settle(self)
        before: object = self.before
        if isinstance(before, str):
            object.__setattr__(self, "before", Ref.parse(before))
        elif before is not None and not isinstance(before, Ref):
            raise TypeError(f"before is a Ref or its text, not {before!r}")
        if self.keep_bytes is None and self.keep_seconds is None and self.before is None:
            raise ValueError("one of keep_bytes, keep_seconds and before is needed")
        if self.keep_bytes is not None and self.keep_bytes < 0:
            raise ValueError(f"keep_bytes is 0 or more, not {self.keep_bytes}")
        if self.keep_seconds is not None and not 0 <= self.keep_seconds < math.inf:
            raise ValueError(f"keep_seconds is 0 or more, not {self.keep_seconds}")

    def allows(self, number: int, *, bytes_after: int, age_seconds: float) -> bool:
        """Whether a file may go that was closed so long ago, with so many bytes in the files after it."""
        return (
            (self.keep_bytes is None or bytes_after >= self.keep_bytes)
            and (self.keep_seconds is None or age_seconds >= self.keep_seconds)
            and (self.before is None or number < self.before.number)
        )


def prune(
    path: str | os.PathLike[str],
    *,
    keep_bytes: int | str | None = None,
    keep_seconds: float | timedelta | str | None = None,
    before: Ref | str | None = None,
    damaged: bool = False,
    dry_run: bool = False,
) -> list[Pruned]:
    """Remove closed files, oldest first, and tell which; their indexes and archives go with them.

    keep_bytes: keep at least so many of the newest bytes, or "10G": a file goes where those after it have as many.
    keep_seconds: keep what was closed less than so long ago: seconds, a timedelta, or "30d".
    before: keep the file of this ref, or of its text, and all after it.
    damaged: remove too what recovery or repair had set aside from those files.
    dry_run: remove nothing.
    At least one of the first three must be given; a file goes where all that are given allow it.
    May run beside writers, readers and others that prune.  Stops at a file that another program has locked, and in a
    log that other programs write to at one that anybody has open for writing.  Durable on return.
    Raises: NotFoundError if there is no log; AccessError, CorruptError, VersionError, PoisonedError; ValueError, also
    for a ref beyond the log.
    """
    retention = Retention(  # which takes what stands for a number, too
        keep_bytes=keep_bytes,  # type: ignore[arg-type]
        keep_seconds=keep_seconds,  # type: ignore[arg-type]
        before=before,  # type: ignore[arg-type]
    )
    with LogDirectory(path) as directory:
        directory.log_numbers()
        files = list(list_files(directory))
        before = retention.before
        if before is not None and files and before.number > files[-1].header.number:
            raise ValueError(f"{before}: there is no such file; the newest is {files[-1].header.number}")
        if not dry_run:
            # A file goes only once the name of the one that it leads to is durable.
            directory.sync()
            _sweep(directory, damaged=damaged)
        pruned = []
        set_aside = directory.set_aside() if damaged else {}
        mixed = any(file.header.has_foreign_writers for file in files)
        for closed in _removable(files, retention, mixed=mixed, now_ns=time.time_ns()):
            if mixed and is_written(directory, closed.file.header.number):
                break
            found = _told(directory, closed, set_aside.get(closed.file.header.number, []))
            if not dry_run and not _remove(directory, closed.file, found.names):
                break
            pruned.append(found)
        return pruned


def _removable(files: Sequence[ListedFile], retention: Retention, *, mixed: bool, now_ns: int) -> Iterator[ClosedFile]:
    """The files that may go, oldest first."""
    for closed in closed_files(files, mixed=mixed, now_ns=now_ns):
        age_seconds = (now_ns - closed.closed_ns) / 1e9
        number = closed.file.header.number
        if not retention.allows(number, bytes_after=closed.bytes_after, age_seconds=age_seconds):
            return
        yield closed


def _told(directory: LogDirectory, closed: ClosedFile, set_aside: list[str]) -> Pruned:
    """A file with what goes with it: its archive or what is left of making one, its index, and what was set aside."""
    file = closed.file
    number = file.header.number
    own = archive_file_name(number) if file.archived else log_file_name(number)
    with_it = [archive_file_name(number), unfinished_archive_name(number), index_file_name(number)]
    sidecars = sorted([*(name for name in with_it if name != own and directory.has(name)), *set_aside])
    return Pruned(
        number=number,
        names=(own, *sidecars),
        record_count=file.header.record_count if file.header.is_native else None,
        closed_ns=closed.closed_ns,
        disk_bytes=file.disk_bytes + sum(map(directory.disk_bytes, sidecars)),
    )


def _remove(directory: LogDirectory, file: ListedFile, names: Sequence[str]) -> bool:
    """Remove the file and what goes with it, durably; False where it is not to be had, or has changed."""
    header, path = file.header, directory.file_path(names[0])
    try:
        with directory.locked(names[0], 0) as fd:
            if os.fstat(fd).st_nlink == 0:
                return False
            # An archive never changes, and was compared with the file under the file's lock.
            found = header if file.archived else directory.believe(read_header(fd, header.number, path))
            if not found.closed or found.tail != header.tail:
                return False
            for name in names:
                directory.remove(name)
            directory.sync()
    except (NotFoundError, BusyError):
        return False  # others prune, and further than this: what is left is theirs to judge
    return True


def _sweep(directory: LogDirectory, *, damaged: bool) -> None:
    """Remove what went with files that are gone: whoever removed those died at it."""
    lowest = min(directory.numbers(), default=0)
    for name in directory.names():
        taken = damaged_file_range(name) if damaged else None
        number = taken[0] if taken is not None else index_file_number(name) or unfinished_archive_number(name)
        if number is not None and number < lowest:
            directory.remove(name)
