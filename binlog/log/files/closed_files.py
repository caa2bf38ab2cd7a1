"""Which closed files of a log nobody writes to any more, so that they may be removed, or archived.

Where other programs write (mixed logs), the newest closed file stays as it is, for there a jPOS writer starts; so does
one closed just now, for late records come; and one that anybody has open for writing, for a jPOS writer that has idled
there makes the next file anew where it misses it.  So do all after that one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from binlog.errors import NotFoundError
from binlog.format.log_header import LogHeader
from binlog.format.names import log_file_name
from binlog.log.directory import LogDirectory
from binlog.log.files.header import settled_header
from binlog.log.index.index import closing_times, index_times
from binlog.log.read.position import KEEP_SECONDS
from binlog.storage.locking.locks import has_writers


@dataclass(frozen=True)
class ListedFile:
    """A file of a listing.

    disk_bytes: what it takes on the disk.  archived: there is only an archive of it.
    last_ns: when its last records were there, by its index; None if that does not tell.
    """

    header: LogHeader
    modified_ns: int
    disk_bytes: int
    archived: bool = False
    last_ns: int | None = None


@dataclass(frozen=True)
class ClosedFile:
    """A file that may go.

    closed_ns: when it was closed, as far as can be told.  bytes_after: in the files after it.
    """

    file: ListedFile
    closed_ns: int
    bytes_after: int


def list_files(directory: LogDirectory) -> Iterator[ListedFile]:
    """The files of a log, in order.  Raises: AccessError, CorruptError, VersionError."""
    for number in directory.numbers():
        try:
            with directory.log_file(number) as file:
                header = directory.believe(settled_header(file.content, number, file.path))
                status = os.fstat(file.fd)
                archived = file.archive is not None
                times = index_times(directory, header)
        except NotFoundError:
            continue  # somebody else removed it since the listing
        yield ListedFile(header, status.st_mtime_ns, 512 * status.st_blocks, archived, times[1] if times else None)


def closed_files(files: Sequence[ListedFile], *, mixed: bool, now_ns: int) -> Iterator[ClosedFile]:
    """Those that are closed and that nobody needs where they are, oldest first, up to the first that is not."""
    keep_from = max((file.header.number for file in files if file.header.ours), default=math.inf)
    if mixed:
        keep_from = min(keep_from, max((file.header.number for file in files if file.header.closed), default=0))
    bytes_after = sum(file.header.tail for file in files)
    closed = closing_times([_told(file, following) for file, following in pairwise(files)], now_ns)
    for (file, following), closed_ns in zip(pairwise(files), closed, strict=True):
        number = file.header.number
        if not file.header.closed or following.header.number != number + 1 or number >= keep_from:
            return
        bytes_after -= file.header.tail
        if mixed and (now_ns - closed_ns) / 1e9 < KEEP_SECONDS:
            return
        yield ClosedFile(file, closed_ns, bytes_after)


def is_written(directory: LogDirectory, number: int) -> bool:
    """Whether anybody has the file open for writing.  Raises: AccessError where that is not ours to ask."""
    try:
        return has_writers(directory, log_file_name(number))
    except NotFoundError:
        return False


def _told(file: ListedFile, following: ListedFile) -> list[int]:
    """The times that tell when a file was closed, the best of them last."""
    header = file.header
    times = [header.created_ns] if header.ours else []
    if file.last_ns is not None:
        times.append(file.last_ns)
    if file.last_ns is None or header.mixed or not following.header.ours:
        times.append(file.modified_ns)
    return [*times, following.header.created_ns] if following.header.ours else times
