"""What a log consists of, at one moment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from binlog.errors import NotFoundError
from binlog.format.log_header import LogHeader
from binlog.format.names import FileKind, file_kind
from binlog.format.record import Ref
from binlog.log.directory import LogDirectory
from binlog.log.files.header import validated_header
from binlog.storage.staging_area import look


@dataclass(frozen=True, kw_only=True)
class FileStat:
    """One log file.  Sizes and offsets are in bytes.

    file_bytes: its size.  disk_bytes: what it takes on the disk.  prepared_bytes: how much of that is beyond the tail.
    durable_end: up to where a sync is known to have gone well; what lies between there and the tail is only flushed.
    first_offset: where its first record lies.  tail: where its next one will.
    record_count, first_sequence, created_ns, uuid, durable_end: None where another program made the file, and they are
        not known.
    mixed: other programs write here too.
    archived: it is an archive, whose path and sizes these are, and all of it is durable; offsets are the log file's.
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
    prepared_bytes: int = 0
    durable_end: int | None = None
    archived: bool = False


@dataclass(frozen=True, kw_only=True)
class LogStat:
    """A log: its directory, its files in order, and what lies beside them, as it is on the disk.

    index_bytes, damaged_bytes: indexes, and what recovery or repair set aside.
    archive_bytes: archives, those among the files included.
    new_bytes: files prepared for later, or left behind by a process that died at it.
    staged_bytes: the room in shared memory of records that are not in the log yet.  memory_bytes: all that it takes.
        None where there is none, or it is not ours to look at.
    """

    path: str
    files: tuple[FileStat, ...]
    index_bytes: int = 0
    archive_bytes: int = 0
    damaged_bytes: int = 0
    new_bytes: int = 0
    staged_bytes: int | None = None
    memory_bytes: int | None = None

    @property
    def used_bytes(self) -> int:
        """What lies before the tails of all files."""
        return sum(file.tail for file in self.files)

    @property
    def prepared_bytes(self) -> int:
        """What is allocated beyond the tails."""
        return sum(file.prepared_bytes for file in self.files)

    @property
    def disk_bytes(self) -> int:
        """What all of it takes on the disk."""
        beside = self.index_bytes + self.archive_bytes + self.damaged_bytes + self.new_bytes
        return sum(file.disk_bytes for file in self.files if not file.archived) + beside

    @property
    def unsynced_bytes(self) -> int | None:
        """What is only flushed, as far as is known; None where no file tells."""
        known = [file.tail - file.durable_end for file in self.files if file.durable_end is not None]
        return sum(known) if known else None

    @property
    def record_count(self) -> int | None:
        """The records of all files; None if one does not tell, for another program writes to it."""
        counts = [file.record_count for file in self.files]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def end_sequence(self) -> int | None:
        """The sequence number of the record that comes next; None if the last file does not tell."""
        last = self.files[-1] if self.files else None
        if last is None or last.first_sequence is None or last.record_count is None:
            return None
        return last.first_sequence + last.record_count

    def bytes_after(self, ref: Ref) -> int | None:
        """The bytes of the log from a ref on, with the records' lengths; None if its file is not there."""
        if all(file.number != ref.number for file in self.files):
            return None
        return sum(
            max(file.tail - (ref.offset if file.number == ref.number else file.first_offset), 0)
            for file in self.files
            if file.number >= ref.number
        )

    @property
    def tail(self) -> Ref | None:
        """Where the next record will lie, or None for a log with no files yet."""
        if not self.files:
            return None
        newest = self.files[-1]
        if len(self.files) > 1 and not self.files[-2].closed and newest.tail == newest.first_offset:
            # While a file is open, the one after it was only named by a cutover under way, or by one that died.
            newest = self.files[-2]
        return Ref(newest.number, newest.tail)


def stat(path: str | os.PathLike[str]) -> LogStat:
    """The files of the log in a directory, and what lies beside them.  Reads headers only, takes no lock.

    A directory that holds no log has none.
    Raises: NotFoundError if there is no such directory; AccessError, CorruptError, VersionError.
    """
    with LogDirectory(path) as directory:
        files: list[FileStat] = []
        for number in directory.numbers():
            try:
                header, file = _file_stat(directory, number)
            except NotFoundError:
                continue  # retention removed it since the listing
            if header.ingesting and files and not files[-1].closed:
                break  # its records are in the log once the file before it is closed
            files.append(file)
        beside = dict.fromkeys(FileKind, 0)
        for name in directory.names():
            if (kind := file_kind(name)) is not None:
                beside[kind] += directory.disk_bytes(name)
        uuid = next((file.uuid for file in reversed(files) if file.uuid is not None), None)
        memory = None if uuid is None else look(directory.fd, bytes.fromhex(uuid))
        return LogStat(
            path=directory.path,
            files=tuple(files),
            index_bytes=beside[FileKind.INDEX],
            archive_bytes=beside[FileKind.ARCHIVE],
            damaged_bytes=beside[FileKind.DAMAGED],
            new_bytes=beside[FileKind.PREPARED],
            staged_bytes=None if memory is None else memory.staged_bytes,
            memory_bytes=None if memory is None else memory.memory_bytes,
        )


def _file_stat(directory: LogDirectory, number: int) -> tuple[LogHeader, FileStat]:
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
        mixed=header.has_foreign_writers,
        file_bytes=status.st_size,
        disk_bytes=disk_bytes,
        prepared_bytes=0 if archived else max(disk_bytes - used_bytes, 0),
        durable_end=header.tail if archived else header.confirmed_end if is_native else None,
        archived=archived,
    )
