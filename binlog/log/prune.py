"""Retention: removing the oldest closed files of a log.

Invariants
- Files go oldest first, each durably before the next is touched: whatever happens in between, what stays is a log
  without a gap.
- A file goes only under its own lock, seen closed there, and only while the file that it leads to is there.
- The newest file of ours stays: it says whose log this is, and from where its records are counted.
- Where other programs write (mixed logs), the newest closed file stays, for there a jPOS writer starts; so does one
  closed just now, for late records come; and one that anybody has open for writing, for a jPOS writer that has idled
  there makes the next file anew where it misses it.  So do all after that one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from binlog.errors import BusyError, NotFoundError
from binlog.format.log_header import LogHeader
from binlog.format.names import (
    archive_file_name,
    damaged_file_range,
    index_file_name,
    index_file_number,
    log_file_name,
)
from binlog.format.ref import Ref
from binlog.log.directory import LogDirectory
from binlog.log.header_reading import read_header, settled_header
from binlog.log.late import KEEP_SECONDS
from binlog.storage.descriptor import Descriptor
from binlog.storage.files import remove_file, sync_directory
from binlog.storage.lease import has_writers
from binlog.storage.locks import lock, unlock


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


@dataclass(frozen=True)
class _File:
    header: LogHeader
    modified_ns: int
    disk_bytes: int


def prune(
    path: str | os.PathLike[str],
    *,
    keep_bytes: int | None = None,
    keep_seconds: float | None = None,
    before: Ref | None = None,
    damaged: bool = False,
    dry_run: bool = False,
) -> list[Pruned]:
    """Remove closed files, oldest first, and tell which; their indexes go with them, archives stay.

    keep_bytes: keep at least so many of the newest bytes: a file goes where those after it have as many.
    keep_seconds: keep what was closed less than so long ago.
    before: keep the file of this ref and all after it.
    damaged: remove too what recovery or repair had set aside from those files.
    dry_run: remove nothing.
    At least one of the first three must be given; a file goes where all that are given allow it.
    May run beside writers, readers and others that prune.  Stops at a file that another program has locked, and in a
    log that other programs write to at one that anybody has open for writing.  Durable on return.
    Raises: AccessError, CorruptError, VersionError, PoisonedError; ValueError, also for a ref beyond the log.
    """
    retention = Retention(keep_bytes=keep_bytes, keep_seconds=keep_seconds, before=before)
    directory = LogDirectory(path)
    try:
        files = list(_files(directory))
        if before is not None and files and before.number > files[-1].header.number:
            raise ValueError(f"{before}: there is no such file; the newest is {files[-1].header.number}")
        if not dry_run:
            # A file goes only once the name of the one that it leads to is durable.
            sync_directory(directory.fd, directory.path)
            _sweep(directory, damaged=damaged)
        pruned = []
        mixed = any(file.header.mixed for file in files)
        for file in _removable(files, retention, mixed=mixed, now_ns=time.time_ns()):
            if mixed and _is_written(directory, file.header.number):
                break
            found = _told(directory, file, files, damaged=damaged)
            if not dry_run and not _remove(directory, file.header, found.names):
                break
            pruned.append(found)
        return pruned
    finally:
        directory.close()


def _files(directory: LogDirectory) -> Iterator[_File]:
    for number in directory.numbers():
        try:
            fd = directory.open(number)
        except NotFoundError:
            continue  # somebody else removed it since the listing
        try:
            header = settled_header(fd, number, directory.file_path(number))
            status = os.fstat(fd)
        finally:
            os.close(fd)
        yield _File(header, status.st_mtime_ns, 512 * status.st_blocks)


def _removable(files: Sequence[_File], retention: Retention, *, mixed: bool, now_ns: int) -> Iterator[_File]:
    """The files that may go, oldest first."""
    keep_from = max((file.header.number for file in files if file.header.ours), default=math.inf)
    if mixed:
        keep_from = min(keep_from, max((file.header.number for file in files if file.header.closed), default=0))
    bytes_after = sum(file.header.tail for file in files)
    for file, following in pairwise(files):
        number = file.header.number
        if not file.header.closed or following.header.number != number + 1 or number >= keep_from:
            return
        bytes_after -= file.header.tail
        age_seconds = (now_ns - _closed_ns(file, following)) / 1e9
        if mixed and age_seconds < KEEP_SECONDS:
            return
        if not retention.allows(number, bytes_after=bytes_after, age_seconds=age_seconds):
            return
        yield file


def _closed_ns(file: _File, following: _File) -> int:
    """When the file was closed: when the next was made, where that one tells; in a mixed log, when it last changed."""
    if not following.header.ours:
        return file.modified_ns
    if file.header.mixed:
        return max(file.modified_ns, following.header.created_ns)
    return following.header.created_ns


def _is_written(directory: LogDirectory, number: int) -> bool:
    try:
        return has_writers(directory.fd, log_file_name(number), directory.file_path(number))
    except NotFoundError:
        return False


def _told(directory: LogDirectory, file: _File, files: Sequence[_File], *, damaged: bool) -> Pruned:
    number = file.header.number
    following = next(other for other in files if other.header.number == number + 1)
    sidecars = _sidecars(directory.names(), number, damaged=damaged)
    return Pruned(
        number=number,
        names=(log_file_name(number), *sidecars),
        record_count=file.header.record_count if file.header.ours else None,
        closed_ns=_closed_ns(file, following),
        disk_bytes=file.disk_bytes + sum(_disk_bytes(directory, name) for name in sidecars),
    )


def _sidecars(names: list[str], number: int, *, damaged: bool) -> list[str]:
    """What goes with a file: its index, unless there is an archive that needs it, and if told what was set aside."""
    found = [name for name in names if name == index_file_name(number) and archive_file_name(number) not in names]
    for name in names if damaged else []:
        taken = damaged_file_range(name)
        if taken is not None and taken[0] == number:
            found.append(name)
    return sorted(found)


def _disk_bytes(directory: LogDirectory, name: str) -> int:
    try:
        return 512 * os.stat(name, dir_fd=directory.fd, follow_symlinks=False).st_blocks
    except FileNotFoundError:
        return 0


def _remove(directory: LogDirectory, header: LogHeader, names: Sequence[str]) -> bool:
    """Remove the file and what goes with it, durably; False where it is not to be had, or has changed."""
    path = directory.file_path(header.number)
    try:
        descriptor = Descriptor(directory.fd, log_file_name(header.number), path)
    except NotFoundError:
        return False  # others prune, and further than this: what is left is theirs to judge
    fd = descriptor.fd
    try:
        lock(fd, path, 0)
        found = read_header(fd, header.number, path)
        if os.fstat(fd).st_nlink == 0 or not found.closed or found.tail != header.tail:
            return False
        for name in names:
            remove_file(directory.fd, name, os.path.join(directory.path, name))
        sync_directory(directory.fd, directory.path)
    except BusyError:
        return False
    finally:
        unlock(fd)
        descriptor.close()
    return True


def _sweep(directory: LogDirectory, *, damaged: bool) -> None:
    """Remove the indexes, and if told what was set aside, of files that are gone: whoever removed those died at it."""
    names = directory.names()
    lowest = min(directory.numbers(), default=0)
    for name in names:
        taken = damaged_file_range(name) if damaged else None
        number = taken[0] if taken is not None else index_file_number(name)
        if number is not None and number < lowest and name in _sidecars(names, number, damaged=damaged):
            remove_file(directory.fd, name, os.path.join(directory.path, name))
