"""Closing the open file and going on in the next.

The order, under the open file's lock, leaves at each step either the old file
open or the next one reachable: the next file gets its name, complete and
synced; the directory is synced; the old file names it; the old file is closed,
synced, its readers told, and cut to its tail.  A file that is there already
under the next name was left by a cutover that died, and is adopted.
"""

from __future__ import annotations

import os
from dataclasses import replace

from binlog.errors import CorruptError, FullError
from binlog.format.log_header import FIRST_OFFSET, Flag, LogHeader
from binlog.format.names import NUMBER_MAX
from binlog.log.directory import LogDirectory
from binlog.log.header_reading import read_header, settled_header
from binlog.log.joining import read_joining, remove_left_joining
from binlog.log.prepared_file import PreparedFile, new_header, new_log_uuid, sweep
from binlog.log.sequence import RecordCounts
from binlog.log.writable_file import WritableFile
from binlog.storage.files import sync, sync_directory, write_at


class Cutover:
    """Cuts a log over, with a next file prepared beforehand and kept until it is used or useless."""

    def __init__(self, directory: LogDirectory, *, file_bytes: int, permissions: int | None) -> None:
        self._directory = directory
        self._file_bytes = file_bytes
        self._permissions = permissions
        self._counts = RecordCounts(directory)
        self._prepared: PreparedFile | None = None

    def prepare(self, file: WritableFile) -> None:
        """Do, without the lock, what the cutover of `file` need not do under it."""
        number = file.number + 1
        if number > NUMBER_MAX:
            raise FullError(f"{file.path}: there are no more file numbers", limit=NUMBER_MAX)
        header = self._directory.believe(settled_header(file.fd, file.number, file.path))
        if header.closed:
            return  # somebody was quicker, as most are where many meet a limit at once
        if not header.ours:
            self._counts.sequence_after(header, file.fd)
        if self._prepared is not None and not (self._prepared.number == number and self._prepared.intact):
            self.discard()
        if self._prepared is None:
            self._prepared = PreparedFile(
                self._directory, number, file_bytes=self._file_bytes, access=file.access(self._permissions)
            )

    def run(self, file: WritableFile, header: LogHeader) -> int:
        """Cut over from `file`, whose lock is held and which is open; the number now open."""
        header = file.confirm(header)
        number = header.next_number or file.number + 1
        try:
            if self._directory.exists(number) or not self._name_prepared(file, header, number):
                self._adopt(file, header, number)
        finally:
            # Named, useless, or half written and not synced: it is never used again.
            self.discard()
        file.complete_index(header)
        file.close_at(header, number)
        sweep(self._directory, number)
        remove_left_joining(self._directory.fd, self._directory.path, file.number)
        return number

    def discard(self) -> None:
        """Remove the prepared file, unless it got its name."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.discard()

    def sequence_after(self, file: WritableFile, header: LogHeader) -> int:
        """The sequence number of the first record behind `file`, whose lock is held."""
        return self._counts.sequence_after(header, file.fd)

    def _name_prepared(self, file: WritableFile, header: LogHeader, number: int) -> bool:
        if self._prepared is None or self._prepared.number != number or not self._prepared.intact:
            self.discard()
            self._prepared = PreparedFile(
                self._directory, number, file_bytes=self._file_bytes, access=file.access(self._permissions)
            )
        return self._prepared.give_name(
            log_uuid=self._log_uuid(header),
            first_sequence=self.sequence_after(file, header),
            epoch=header.epoch,
            flags=Flag.MIXED if header.mixed else 0,
        )

    def _adopt(self, file: WritableFile, header: LogHeader, number: int) -> None:
        """Take over the next file that is there already, if it can be it; never replace it."""
        if header.next_number == number and header.flags & Flag.ONCE:
            joining = read_joining(self._directory.fd, self._directory.path)
            if joining is not None and joining.after == file.number:
                return  # it was decided that it joins the log, and it is complete
        path = self._directory.path_of(number)
        if not self._directory.is_file(number) and self._directory.exists(number):
            raise CorruptError(
                path, 0, "next-file", f"it is an archive, and cannot be the file that follows {file.path}"
            )
        sync_directory(self._directory.fd, self._directory.path)
        fd = self._directory.open(number, writable=True)
        try:
            found = self._directory.believe(read_header(fd, number, path))
            if found.closed or (found.ours and header.ours and found.uuid != header.uuid):
                raise CorruptError(path, 0, "next-file", f"it cannot be the file that follows {file.path}")
            if found.ours and found.tail == FIRST_OFFSET and found.pending is None:
                # Records may have come to the old file since this one was named; nobody writes here before the old
                # file is closed, so its header may be written again.  (Where the close was lost with the power, the
                # first commit here may be there, and not be published.)
                sequence = self.sequence_after(file, header)
                flags = Flag.MIXED if header.mixed else 0
                again = new_header(
                    number, log_uuid=found.uuid, first_sequence=sequence, epoch=header.epoch, flags=flags
                )
                again = replace(again, created_ns=found.created_ns)
                write_at(fd, again.pack(), 0, path)
                sync(fd, path)
        finally:
            os.close(fd)

    def _log_uuid(self, header: LogHeader) -> bytes:
        """The log's identity: that of the nearest file of ours, or a new one where another program made them all."""
        number = header.number
        while not header.ours and self._directory.exists(number - 1):
            number -= 1
            header = self._directory.read_header(number)
        return header.uuid if header.ours else new_log_uuid()
