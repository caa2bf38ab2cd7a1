"""Closing the open file and going on in the next.

The order, under the open file's lock, leaves at each step either the old file
open or the next one reachable: the next file gets its name, complete and
synced; the directory is synced; the old file names it; the old file is closed,
synced, its readers told, and cut to its tail.  A file that is there already
under the next name was left by a cutover that died, and is adopted.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import Protocol

from binlog.errors import CorruptError, FullError
from binlog.format.log_header import FIRST_OFFSET, LOG_HEADER, Flag, LogHeader
from binlog.format.names import NUMBER_MAX, log_file_name
from binlog.log.append.writable_file import WritableFile
from binlog.log.directory import LogDirectory
from binlog.log.files.header import read_header, settled_header
from binlog.log.files.prepared_file import PreparedFile, new_header, sweep
from binlog.log.files.sequences import RecordCounts, missing_between
from binlog.log.ingest.ingest_record import sweep_ingests
from binlog.storage.files import sync, write_at


def gap_error(path: str, number: int, missing: int) -> CorruptError:
    """The error for file `number`, at `path`, which lacks its last records, by the number of the next file's first."""
    records = "1 record is" if missing == 1 else f"{missing} records are"
    text = f"{records} missing between file {number} and file {number + 1}: the two are of different moments"
    repair = f"`binlog repair {shlex.quote(os.path.dirname(path) or '.')}` puts fillers in their places"
    text = f"{text}; copy the log again with `binlog backup`, or {repair}"
    return CorruptError(path, LOG_HEADER.offset("tail"), "gap", text)


def missing_next_error(path: str, header: LogHeader) -> CorruptError:
    """The error for a closed file, at `path`, whose next one is not there."""
    text = f"file {header.number} is closed and leads to file {header.next_number}, which is not there"
    text = f"{text}; `binlog repair {shlex.quote(os.path.dirname(path) or '.')}` makes an empty one"
    return CorruptError(path, LOG_HEADER.offset("next_number"), "missing-next", text)


class NextFile(Protocol):
    """A file that is complete but for its number: a PreparedFile, or one that already has records."""

    def give_name(self, number: int, *, log_uuid: bytes | None, first_sequence: int, epoch: int, flags: int) -> bool:
        """Write the header, durably, and give the file its name, durably; False if the name is taken.

        log_uuid: None if no file of ours tells it.
        """


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

    def run(self, file: WritableFile, header: LogHeader, *, following: NextFile | None = None) -> int:
        """Cut over from `file`, whose lock is held and which is open; the number now open.

        following: what to go on in, instead of an empty file, unless the next number is taken.
        """
        header = file.confirm(header)
        names = self._directory.names()
        sweep_ingests(self._directory, names)
        number = header.next_number or file.number + 1
        try:
            if self._directory.exists(number) or not self._give_name(file, header, number, following):
                self._adopt(file, header, number)
        finally:
            # Named, useless, or half written and not synced: it is never used again.
            self.discard()
        file.complete_index(header)
        file.close_at(header, number)
        sweep(self._directory, number, names)
        return number

    def discard(self) -> None:
        """Remove the prepared file, unless it got its name."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.discard()

    def sequence_after(self, file: WritableFile, header: LogHeader) -> int:
        """The sequence number of the first record behind `file`, whose lock is held."""
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
            flags=Flag.MIXED if header.mixed else 0,
        )

    def _adopt(self, file: WritableFile, header: LogHeader, number: int) -> None:
        """Take over the next file that is there already, if it can be it; never replace it."""
        path = self._directory.path_of(number)
        if not self._directory.is_file(number) and self._directory.exists(number):
            raise CorruptError(
                path, 0, "next-file", f"it is an archive, and cannot be the file that follows {file.path}"
            )
        self._directory.sync()
        with self._directory.opened(log_file_name(number), writable=True) as fd:
            found = self._directory.believe(read_header(fd, number, path))
            if found.closed or (found.ours and header.ours and found.uuid != header.uuid):
                raise CorruptError(path, 0, "next-file", f"it cannot be the file that follows {file.path}")
            if missing := missing_between(self._directory, header, file.fd, found):
                raise gap_error(file.path, file.number, missing)
            sequence = self.sequence_after(file, header)
            flags = Flag.MIXED if header.mixed else 0
            if found.ingesting and found.first_sequence != sequence:
                again = replace(found, first_sequence=sequence, flags=found.flags | flags)
                write_at(fd, again.pack(), 0, path)
                sync(fd, path)
            elif found.ours and found.tail == FIRST_OFFSET and found.pending is None:
                # Records may have come to the old file since this one was named; nobody writes here before the old
                # file is closed, so its header may be written again.  (Where the close was lost with the power, the
                # first commit here may be there, and not be published.)
                again = new_header(
                    number, log_uuid=found.uuid, first_sequence=sequence, epoch=header.epoch, flags=flags
                )
                again = replace(again, created_ns=found.created_ns)
                write_at(fd, again.pack(), 0, path)
                sync(fd, path)

    def log_uuid(self, header: LogHeader) -> bytes | None:
        """The log's identity: that of the nearest file of ours; None if another program made them all."""
        header = self._directory.nearest_native(header)
        return header.uuid if header.ours else None
