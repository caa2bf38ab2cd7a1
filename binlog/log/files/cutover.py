"""Cutover: closing the open file and continuing in the next one.

All of it is under the open file's lock.  The next file gets its name, complete and synced.  The directory is synced.
The old file names the next one.  The old file is closed and synced, its readers are woken, and it is cut to its tail.
So at each step the old file is open or the next one is reachable.  If a file with the next name exists already, a
cutover died there, and this one adopts the file.
"""

from __future__ import annotations

from typing import Protocol

from binlog.errors import CorruptError, FullError
from binlog.format.log_header import FIRST_OFFSET, Flag, LogHeader
from binlog.format.names import NUMBER_MAX, log_file_name
from binlog.log.append.writable_file import WritableFile
from binlog.log.directory import LogDirectory
from binlog.log.files.header import read_header, validated_header
from binlog.log.files.prepared_file import PreparedFile, new_header, sweep
from binlog.log.files.sequences import RecordCounts, gap_error, missing_between
from binlog.log.ingest.ingest_record import sweep_ingests
from binlog.storage.files import sync, write_at


class NextFile(Protocol):
    """A file that is complete but for its number: a PreparedFile, or one that has records already."""

    def give_name(self, number: int, *, log_uuid: bytes | None, first_sequence: int, epoch: int, flags: int) -> bool:
        """Write the header durably and give the file its name, durably; False if the name is taken.

        log_uuid: None if no file of the log has it.
        """


class Cutover:
    """Cuts a log over, with a prepared next file that is kept until it is used or useless."""

    def __init__(self, directory: LogDirectory, *, file_bytes: int, permissions: int | None) -> None:
        self._directory = directory
        self._file_bytes = file_bytes
        self._permissions = permissions
        self._counts = RecordCounts(directory)
        self._prepared: PreparedFile | None = None

    def prepare(self, file: WritableFile) -> None:
        """Prepare the cutover of `file` without the lock, to keep the locked part short."""
        number = file.number + 1
        if number > NUMBER_MAX:
            raise FullError(f"{file.path}: there are no more file numbers", limit=NUMBER_MAX)
        header = self._directory.believe(validated_header(file.fd, file.number, file.path))
        if header.closed:
            return  # another writer was faster, the usual case if many reach a limit at once
        if not header.is_native:
            self._counts.sequence_after(header, file.fd)
        if self._prepared is not None and not (self._prepared.number == number and self._prepared.intact):
            self.discard()
        if self._prepared is None:
            self._prepared = PreparedFile(
                self._directory, number, file_bytes=self._file_bytes, access=file.access(self._permissions)
            )

    def run(self, file: WritableFile, header: LogHeader, *, following: NextFile | None = None) -> int:
        """Cut over from `file`, which is open and locked; return the number of the open file.

        following: the file to continue in instead of an empty one, unless the next number is taken.
        """
        header = file.confirm(header)
        names = self._directory.names()
        sweep_ingests(self._directory, names)
        number = header.next_number or file.number + 1
        try:
            if self._directory.exists(number) or not self._give_name(file, header, number, following):
                self._adopt(file, header, number)
        finally:
            # Named, useless, or half written and not synced: in each case it is never used again.
            self.discard()
        file.complete_index(header)
        file.close_at(header, number)
        sweep(self._directory, number, names)
        return number

    def discard(self) -> None:
        """Remove the prepared file, unless it has its name."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.discard()

    def sequence_after(self, file: WritableFile, header: LogHeader) -> int:
        """Return the sequence of the first record after `file`, which is locked."""
        return self._counts.sequence_after(header, file.fd)

    def _give_name(self, file: WritableFile, header: LogHeader, number: int, following: NextFile | None) -> bool:
        prepared = self._prepared
        if following is None and (prepared is None or prepared.number != number or not prepared.intact):
            self.discard()
            self._prepared = PreparedFile(
                self._directory, number, file_bytes=self._file_bytes, access=file.access(self._permissions)
            )
        named = following or self._prepared
        assert named is not None
        return named.give_name(
            number,
            log_uuid=self.log_uuid(header),
            first_sequence=self.sequence_after(file, header),
            epoch=header.epoch,
            flags=Flag.FOREIGN_WRITERS if header.has_foreign_writers else 0,
        )

    def _adopt(self, file: WritableFile, header: LogHeader, number: int) -> None:
        """Adopt the existing next file if it fits; never replace it."""
        path = self._directory.path_of(number)
        if not self._directory.is_file(number) and self._directory.exists(number):
            raise CorruptError(
                path, 0, "next-file", f"it is an archive, and cannot be the file that follows {file.path}"
            )
        self._directory.sync()
        with self._directory.opened(log_file_name(number), writable=True) as fd:
            found = self._directory.believe(read_header(fd, number, path))
            if found.closed or (found.is_native and header.is_native and found.uuid != header.uuid):
                raise CorruptError(path, 0, "next-file", f"it cannot be the file that follows {file.path}")
            if missing := missing_between(self._directory, header, file.fd, found):
                raise gap_error(file.path, file.number, missing)
            sequence = self.sequence_after(file, header)
            flags = Flag.FOREIGN_WRITERS if header.has_foreign_writers else 0
            if found.ingesting and found.first_sequence != sequence:
                again = found._replace(first_sequence=sequence, flags=found.flags | flags)
                write_at(fd, again.pack(), 0, path)
                sync(fd, path)
            elif found.is_native and found.tail == FIRST_OFFSET and found.pending is None:
                # The old file may have received records after this file was named.  No process appends here before the
                # old file is closed, so the header may be written again.  (If a power loss took the close, the first
                # commit here may exist, and not be published.)
                again = new_header(
                    number, log_uuid=found.uuid, first_sequence=sequence, epoch=header.epoch, flags=flags
                )
                again = again._replace(created_ns=found.created_ns)
                write_at(fd, again.pack(), 0, path)
                sync(fd, path)

    def log_uuid(self, header: LogHeader) -> bytes | None:
        """Return the log's identity from the nearest native file; None if another program made them all."""
        header = self._directory.nearest_native(header)
        return header.uuid if header.is_native else None
