"""LogStat: the files of a log and their sizes at one moment."""

from __future__ import annotations

import os
from typing import NamedTuple

from binlog.errors import NotFoundError
from binlog.format.log_header import Flag, LogHeader
from binlog.format.names import FileKind, archive_file_name, file_kind, log_file_name, shipped_file_number
from binlog.format.record import Ref
from binlog.log.directory import LogDirectory
from binlog.log.files.header import validated_header
from binlog.storage.staging_area import staging_area_usage

# The newest file may be prepared and still empty.
_NEWEST = 2


class FileStat(NamedTuple):
    """One log file.  Sizes and offsets are in bytes.

    file_bytes: its size.  disk_bytes: on the disk.  prepared_bytes: those of them after the tail.
    durable_end: the offset up to which a sync is known to have succeeded; bytes from there to the tail are only
    flushed.
    first_offset: of the first record.  tail: of the next one.
    record_count, first_sequence, created_ns, uuid, durable_end: None if another program made the file, and they are not
    known.
    has_foreign_writers: other programs write to the file too.
    archived: the file is an archive, with its own path and sizes; it is all durable, and offsets are the log file's.
    shipped: the file was copied here by `binlog ship`, so it may be the last one although it is closed.
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
    has_foreign_writers: bool
    file_bytes: int
    disk_bytes: int
    prepared_bytes: int = 0
    durable_end: int | None = None
    archived: bool = False
    shipped: bool = False


class LogStat(NamedTuple):
    """A log: its directory, its files in order, and the sizes of other files in it, on the disk.

    index_bytes, damaged_bytes: indexes, and quarantined bytes.
    archive_bytes: archives, including those among the files.
    new_bytes: files prepared for later, or left by a process that died while preparing one.
    staged_bytes: shared memory of records that are not in the log yet.  memory_bytes: of the whole staging area.  None
    if there is no staging area, or this process may not read it.
    appended_ns: when the newest records were appended, nanoseconds since 1970 UTC, as far as the newest files say.
    epoch: how often the log was recovered; None if another program made the newest file.
    is_poisoned: a write or a sync failed, and no writer has reopened the log since.
    """

    path: str
    files: tuple[FileStat, ...]
    index_bytes: int = 0
    archive_bytes: int = 0
    damaged_bytes: int = 0
    new_bytes: int = 0
    staged_bytes: int | None = None
    memory_bytes: int | None = None
    appended_ns: int | None = None
    epoch: int | None = None
    is_poisoned: bool = False

    @property
    def used_bytes(self) -> int:
        """The bytes before the tails of all files."""
        return sum(file.tail for file in self.files)

    @property
    def prepared_bytes(self) -> int:
        """The bytes allocated after the tails."""
        return sum(file.prepared_bytes for file in self.files)

    @property
    def disk_bytes(self) -> int:
        """The bytes of all files on the disk."""
        beside = self.index_bytes + self.archive_bytes + self.damaged_bytes + self.new_bytes
        return sum(file.disk_bytes for file in self.files if not file.archived) + beside

    @property
    def unsynced_bytes(self) -> int | None:
        """The bytes that are only flushed, as far as is known; None if no file says so."""
        known = [file.tail - file.durable_end for file in self.files if file.durable_end is not None]
        return sum(known) if known else None

    @property
    def record_count(self) -> int | None:
        """The records of all files; None if a file's count is not known, because another program writes to it."""
        counts = [file.record_count for file in self.files]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def has_foreign_writers(self) -> bool:
        """Whether other programs append to the log too."""
        return bool(self.files) and self.files[-1].has_foreign_writers

    @property
    def end_sequence(self) -> int | None:
        """The sequence number of the next record; None if the last file does not have it."""
        last = self.files[-1] if self.files else None
        if last is None or last.first_sequence is None or last.record_count is None:
            return None
        return last.first_sequence + last.record_count

    def bytes_after(self, ref: Ref) -> int | None:
        """Return the bytes of the log from a ref on, with the records' lengths; None if its file does not exist."""
        if all(file.number != ref.number for file in self.files):
            return None
        return sum(
            max(file.tail - (ref.offset if file.number == ref.number else file.first_offset), 0)
            for file in self.files
            if file.number >= ref.number
        )

    @property
    def tail(self) -> Ref | None:
        """The ref of the next record, or None if the log has no files yet."""
        if not self.files:
            return None
        newest = self.files[-1]
        if len(self.files) > 1 and not self.files[-2].closed and newest.tail == newest.first_offset:
            # If a file is open, the next one was only prepared by a cutover that is in progress, or whose writer died.
            newest = self.files[-2]
        return Ref(newest.number, newest.tail)


def stat(path: str | os.PathLike[str]) -> LogStat:
    """Return the files of the log in a directory, and the sizes of its other files.  Reads headers only, takes no lock.

    If the directory has no log, the result has no files.
    Raises: NotFoundError if the directory does not exist; AccessError, CorruptError, VersionError.
    """
    with LogDirectory(path) as directory:
        files: list[FileStat] = []
        headers: list[LogHeader] = []
        # Most logs have no receipt of a shipped file, so do not search for that of each file.
        names = directory.names()
        has_receipts = any(shipped_file_number(name) for name in names)
        for number in directory.numbers():
            try:
                header, file = _file_stat(directory, number, has_receipts=has_receipts)
            except NotFoundError:
                continue  # pruned after the listing
            if header.ingesting and files and not files[-1].closed:
                break  # its records are in the log once the file before it is closed
            files.append(file)
            headers.append(header)
        beside = dict.fromkeys(FileKind, 0)
        for name in names:
            if (kind := file_kind(name)) is not None:
                beside[kind] += directory.disk_bytes(name)
        uuid = next((file.uuid for file in reversed(files) if file.uuid is not None), None)
        memory = None if uuid is None else staging_area_usage(directory.fd, bytes.fromhex(uuid))
        return LogStat(
            path=directory.path,
            files=tuple(files),
            index_bytes=beside[FileKind.INDEX],
            archive_bytes=beside[FileKind.ARCHIVE],
            damaged_bytes=beside[FileKind.DAMAGED],
            new_bytes=beside[FileKind.PREPARED],
            staged_bytes=None if memory is None else memory.staged_bytes,
            memory_bytes=None if memory is None else memory.memory_bytes,
            appended_ns=_appended_ns(headers),
            epoch=headers[-1].epoch if headers and headers[-1].is_native else None,
            is_poisoned=any(header.flags & Flag.POISON for header in headers[-1:]),
        )


def file_sizes(path: str | os.PathLike[str]) -> dict[int, int]:
    """Return the numbers of a log's files, in order, with their sizes in bytes; of an archive the archive's.

    Opens none of them, because they may be damaged.
    Raises: NotFoundError if the directory does not exist or has no log; AccessError.
    """
    with LogDirectory(path) as directory:
        found: dict[int, int] = {}
        for number in directory.log_numbers():
            for name in (log_file_name(number), archive_file_name(number)):
                # Neither exists if the file was pruned after the listing.
                if (status := directory.status(name)) is not None:
                    found.setdefault(number, status.st_size)
        return found


def _appended_ns(headers: list[LogHeader]) -> int | None:
    """Return the time of the newest commit, which is in the newest file that has records."""
    for header in reversed(headers[-_NEWEST:]):
        times = [slot.time_ns for slot in header.slots() if slot.end <= header.tail]
        if times:
            return max(times)
    return None


def _file_stat(directory: LogDirectory, number: int, *, has_receipts: bool) -> tuple[LogHeader, FileStat]:
    with directory.log_file(number) as file:
        path, archived = file.path, file.archive is not None
        header = directory.believe(validated_header(file.content, number, path))
        status = os.fstat(file.fd)
    is_native = header.is_native
    disk_bytes = 512 * status.st_blocks
    used_bytes = -(-header.tail // status.st_blksize) * status.st_blksize
    return header, FileStat(
        number=number,
        path=path,
        closed=header.closed,
        next_number=header.next_number,
        first_offset=header.first_offset,
        tail=header.tail,
        record_count=header.record_count if is_native and header.tail == header.published_tail else None,
        first_sequence=header.first_sequence if is_native else None,
        created_ns=header.created_ns if is_native else None,
        uuid=header.uuid.hex() if is_native else None,
        has_foreign_writers=header.has_foreign_writers,
        file_bytes=status.st_size,
        disk_bytes=disk_bytes,
        prepared_bytes=0 if archived else max(disk_bytes - used_bytes, 0),
        durable_end=header.tail if archived else header.confirmed_end if is_native else None,
        archived=archived,
        shipped=header.closed and has_receipts and directory.ends_at(number),
    )
