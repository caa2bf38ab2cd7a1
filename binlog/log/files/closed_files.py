"""The closed files of a log that retention may remove or compress.

If other programs append to the log too, three kinds of file stay, and all files after them.  The newest closed file
stays, because a jPOS writer starts there.  A file closed just now stays, because late records may arrive.  A file that
any process has open for writing stays, because an idle jPOS writer would create the next file again if it were missing.
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
from binlog.log.files.header import validated_header
from binlog.log.index.index import closing_times, index_times
from binlog.log.read.position import KEEP_SECONDS
from binlog.storage.locking.locks import has_writers


@dataclass(frozen=True)
class ListedFile:
    """A file of a listing.

    disk_bytes: the space it takes on the disk.  archived: only its archive exists.
    last_ns: the time of its last records, by its index; None if that is unknown.
    """

    header: LogHeader
    modified_ns: int
    disk_bytes: int
    archived: bool = False
    last_ns: int | None = None


@dataclass(frozen=True)
class ClosedFile:
    """A file that may be removed.

    closed_ns: when it was closed, as far as known.  bytes_after: in the files after it.
    """

    file: ListedFile
    closed_ns: int
    bytes_after: int


def list_files(directory: LogDirectory) -> Iterator[ListedFile]:
    """Iterate over the files of a log, in order.  Raises: AccessError, CorruptError, VersionError."""
    for number in directory.numbers():
        try:
            with directory.log_file(number) as file:
                header = directory.believe(validated_header(file.content, number, file.path))
                status = os.fstat(file.fd)
                archived = file.archive is not None
                times = index_times(directory, header)
        except NotFoundError:
            continue  # another process removed it after the listing
        yield ListedFile(header, status.st_mtime_ns, 512 * status.st_blocks, archived, times[1] if times else None)


def closed_files(files: Sequence[ListedFile], *, has_foreign_writers: bool, now_ns: int) -> Iterator[ClosedFile]:
    """Iterate over the closed files that no program needs in place, oldest first, up to the first needed one."""
    keep_from = max((file.header.number for file in files if file.header.is_native), default=math.inf)
    if has_foreign_writers:
        keep_from = min(keep_from, max((file.header.number for file in files if file.header.closed), default=0))
    bytes_after = sum(file.header.tail for file in files)
    closed = closing_times([_closing_hints(file, following) for file, following in pairwise(files)], now_ns)
    for (file, following), closed_ns in zip(pairwise(files), closed, strict=True):
        number = file.header.number
        if not file.header.closed or following.header.number != number + 1 or number >= keep_from:
            return
        bytes_after -= file.header.tail
        if has_foreign_writers and (now_ns - closed_ns) / 1e9 < KEEP_SECONDS:
            return
        yield ClosedFile(file, closed_ns, bytes_after)


def is_written(directory: LogDirectory, number: int) -> bool:
    """Whether any process has the file open for writing.  Raises: AccessError without the right to ask."""
    try:
        return has_writers(directory, log_file_name(number))
    except NotFoundError:
        return False


def _closing_hints(file: ListedFile, following: ListedFile) -> list[int]:
    """Return the times that hint at when a file was closed, the best last."""
    header = file.header
    times = [header.created_ns] if header.is_native else []
    if file.last_ns is not None:
        times.append(file.last_ns)
    if file.last_ns is None or header.has_foreign_writers or not following.header.is_native:
        times.append(file.modified_ns)
    return [*times, following.header.created_ns] if following.header.is_native else times
