"""What a log consists of, at one moment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from binlog.errors import NotFoundError
from binlog.format.ref import Ref
from binlog.log.directory import LogDirectory
from binlog.log.header_reading import settled_header


@dataclass(frozen=True, kw_only=True)
class FileStat:
    """One log file.  Sizes and offsets are in bytes.

    disk_bytes: what it takes on the disk, with space prepared beyond the tail.
    first_offset: where its first record lies.  tail: where its next one will.
    record_count, first_sequence, created_ns, uuid: None where another program made the file and they are not known.
    mixed: other programs write here too.
    """

    number: int
    path: str
    closed: bool
    next_number: int
    first_offset: int
    tail: int
    record_count: int | None
    first_sequence: int | None
    created_ns: int | None
    uuid: str | None
    mixed: bool
    file_bytes: int
    disk_bytes: int


@dataclass(frozen=True, kw_only=True)
class LogStat:
    """A log: its directory and its files in order."""

    path: str
    files: tuple[FileStat, ...]

    @property
    def tail(self) -> Ref | None:
        """Where the next record will lie, or None for a log with no files yet."""
        if not self.files:
            return None
        # While a file is open, the one after it was only named by a cutover under way, or by one that died.
        newest = self.files[-2] if len(self.files) > 1 and not self.files[-2].closed else self.files[-1]
        return Ref(newest.number, newest.tail)


def stat(path: str | os.PathLike[str]) -> LogStat:
    """The files of the log in a directory.  Reads headers only, takes no lock.

    Raises: AccessError, CorruptError, VersionError.
    """
    directory = LogDirectory(path)
    try:
        files = []
        for number in directory.numbers():
            try:
                files.append(_file_stat(directory, number))
            except NotFoundError:
                continue  # retention removed it since the listing
        return LogStat(path=directory.path, files=tuple(files))
    finally:
        directory.close()


def _file_stat(directory: LogDirectory, number: int) -> FileStat:
    path = directory.file_path(number)
    fd = directory.open(number)
    try:
        header = settled_header(fd, number, path)
        status = os.fstat(fd)
    finally:
        os.close(fd)
    ours = header.ours
    return FileStat(
        number=number,
        path=path,
        closed=header.closed,
        next_number=header.next_number,
        first_offset=header.first_offset,
        tail=header.tail,
        record_count=header.record_count if ours and header.tail == header.own_tail else None,
        first_sequence=header.first_sequence if ours else None,
        created_ns=header.created_ns if ours else None,
        uuid=header.uuid.hex() if ours else None,
        mixed=header.mixed,
        file_bytes=status.st_size,
        disk_bytes=512 * status.st_blocks,
    )
