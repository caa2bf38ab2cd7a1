"""Retention: removing the oldest closed files of a log.

Invariants
- Files are removed oldest first, each durably before the next, so that a log is left without a gap at any moment.
- A file is removed only under its own lock, closed, and while the next file exists.
- The newest native file stays: it has the log's uuid and the start of its record count.
- If other programs write to the log, more files stay: see closed_files.py.
- If a file and its archive exist, the file is removed first, because the archive is whole.
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
from binlog.format.values import coerce_options
from binlog.log.directory import LogDirectory
from binlog.log.files.closed_files import ClosedFile, ListedFile, closed_files, is_written, list_files
from binlog.log.files.header import read_header


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """A file that was removed, or would be in a dry run.

    names: the file's and its sidecars', in the log's directory.
    record_count: None if another program made the file.
    closed_ns: when the file was closed, as far as is known.
    disk_bytes: of all these files on the disk.
    """

    number: int
    names: tuple[str, ...]
    record_count: int | None
    closed_ns: int
    disk_bytes: int


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Limits of retention; None for no limit.  A file is removed if all given limits allow it."""

    keep_bytes: int | None = None
    keep_seconds: float | None = None
    before: Ref | None = None

    def __post_init__(self) -> None:
        coerce_options(self)
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
        """Return whether a file may be removed, by its age since its close and the bytes in later files."""
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
    """Remove closed files, oldest first, with their indexes and archives; return a report for each.

    keep_bytes: keep at least n of the newest bytes, or "10G": a file is removed if the files after it have as many.
    keep_seconds: keep files that were closed less than this ago: seconds, a timedelta, or "30d".
    before: keep the file of this ref, or its text, and all later files.
    damaged: also remove quarantined bytes of those files.
    dry_run: remove nothing.
    At least one of the first three is required; a file is removed if all that are given allow it.
    May run beside writers, readers and other prunes.  Stops at a file that another process has locked, and in a log
    with foreign writers at one that any process has open for writing.  Durable on return.
    Raises: NotFoundError if there is no log; AccessError, CorruptError, VersionError, PoisonedError; ValueError, also
    for a ref past the log's end.
    """
    retention = Retention(  # which also takes texts for numbers
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
            # The name of the next file must be durable before a file is removed.
            directory.sync()
            _remove_leftovers(directory, damaged=damaged)
        pruned = []
        quarantined = directory.quarantined() if damaged else {}
        has_foreign_writers = any(file.header.has_foreign_writers for file in files)
        for closed in _removable(files, retention, has_foreign_writers=has_foreign_writers, now_ns=time.time_ns()):
            if has_foreign_writers and is_written(directory, closed.file.header.number):
                break
            found = _report(directory, closed, quarantined.get(closed.file.header.number, []))
            if not dry_run and not _remove(directory, closed.file, found.names):
                break
            pruned.append(found)
        return pruned


def _removable(
    files: Sequence[ListedFile], retention: Retention, *, has_foreign_writers: bool, now_ns: int
) -> Iterator[ClosedFile]:
    """Yield the files that may be removed, oldest first."""
    for closed in closed_files(files, has_foreign_writers=has_foreign_writers, now_ns=now_ns):
        age_seconds = (now_ns - closed.closed_ns) / 1e9
        number = closed.file.header.number
        if not retention.allows(number, bytes_after=closed.bytes_after, age_seconds=age_seconds):
            return
        yield closed


def _report(directory: LogDirectory, closed: ClosedFile, quarantined: list[str]) -> Pruned:
    """Return a report of a file with its archive or unfinished archive, its index, and quarantined bytes."""
    file = closed.file
    number = file.header.number
    own = archive_file_name(number) if file.archived else log_file_name(number)
    with_it = [archive_file_name(number), unfinished_archive_name(number), index_file_name(number)]
    sidecars = sorted([*(name for name in with_it if name != own and directory.has(name)), *quarantined])
    return Pruned(
        number=number,
        names=(own, *sidecars),
        record_count=file.header.record_count if file.header.is_native else None,
        closed_ns=closed.closed_ns,
        disk_bytes=file.disk_bytes + sum(map(directory.disk_bytes, sidecars)),
    )


def _remove(directory: LogDirectory, file: ListedFile, names: Sequence[str]) -> bool:
    """Remove a file and its sidecars, durably; return False if it is locked, was removed, or has changed."""
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
        return False  # another process prunes the log further, or has the file locked
    return True


def _remove_leftovers(directory: LogDirectory, *, damaged: bool) -> None:
    """Remove sidecars of removed files, which a prune that died has left."""
    lowest = min(directory.numbers(), default=0)
    for name in directory.names():
        taken = damaged_file_range(name) if damaged else None
        number = taken[0] if taken is not None else index_file_number(name) or unfinished_archive_number(name)
        if number is not None and number < lowest:
            directory.remove(name)
