"""One log file as a writer has it: its lock, its header under the lock, one commit, its bell.

Invariants
- The lock is held from before the tail is read until after it is published.
- What the header said under an earlier lock is never used under a later one.
- In a file that another program made, only the tail, the status and the next number are ever written.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from binlog.errors import BinlogError, CorruptError, FullError, GoneError, PoisonedError
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER, PUBLISHED, Flag, LogHeader, Status, appended
from binlog.format.names import log_file_name
from binlog.log.chain import walk
from binlog.log.directory import LogDirectory
from binlog.log.header_reading import check_header, check_size, read_header
from binlog.storage.boot import boot_id
from binlog.storage.commit import Publication, commit_strict
from binlog.storage.descriptor import Descriptor
from binlog.storage.doorbell import Doorbell
from binlog.storage.files import allocate, sync, write_at

_TAIL = LOG_HEADER.offset("tail")
_STATUS = LOG_HEADER.offset("status")
_NEXT = LOG_HEADER.offset("next_number")
_BELL = LOG_HEADER.offset("doorbell")

PREPARE_BYTES_FIRST = 1 << 20


class WritableFile:
    """A log file open for appending.  All methods but `close` and `wake` want the file's lock held."""

    def __init__(self, directory: LogDirectory, number: int, *, prepare_bytes: int) -> None:
        self.number = number
        self.path = directory.file_path(number)
        self._prepare_bytes = prepare_bytes
        self._descriptor = Descriptor(directory.fd, log_file_name(number), self.path)
        status = os.fstat(self._descriptor.fd)
        self._identity = (status.st_dev, status.st_ino)
        self._doorbell: Doorbell | None = None

    @property
    def identity(self) -> tuple[int, int]:
        """What tells the file from every other on this machine: device and inode."""
        return self._identity

    @property
    def fd(self) -> int:
        """The descriptor that holds the lock."""
        return self._descriptor.fd

    def header(self) -> LogHeader:
        """The header, checked as far as a writer must before it builds on it.

        Raises: GoneError where the file has lost its name; PoisonedError; CorruptError; VersionError.
        """
        if os.fstat(self.fd).st_nlink == 0:
            raise GoneError(f"{self.path} was removed")
        header = read_header(self.fd, self.number, self.path)
        if header.ours and not header.live_good:
            raise CorruptError(
                self.path, LOG_HEADER.offset("live_crc"), "live-crc", "the live block's CRC does not hold"
            )
        if header.flags & Flag.POISON:
            raise PoisonedError(f"{self.path}: a sync failed before ({os.strerror(header.poison_errno)})")
        check_size(header, self.fd, self.path)
        return check_header(header, self.fd, self.path)

    def adopted(self, header: LogHeader) -> LogHeader:
        """The header with another program's tail taken over: its records counted, the file mixed for good."""
        if not header.ours or header.tail == header.own_tail:
            return header
        count, _ = walk(self.fd, header.own_tail, header.tail, header.tail, self.path)
        return replace(
            header, own_tail=header.tail, record_count=header.record_count + count, flags=header.flags | Flag.MIXED
        )

    def append(self, header: LogHeader, data: bytes, record_count: int) -> LogHeader:
        """Append framed records after the header's tail, durably, and publish them together.

        Raises: FullError or AccessError with nothing changed; PoisonedError.
        """
        end = header.tail + len(data)
        self._make_room(header.tail, end)
        if header.ours:
            header = appended(header, tail=end, record_count=header.record_count + record_count, boot_id=boot_id())
            header = replace(header, doorbell=_next_bell(header.doorbell))
            publication = Publication(header.published(), PUBLISHED.start, header.doorbell, _BELL)
        else:
            header = replace(header, tail=end, own_tail=end)
            publication = Publication(end.to_bytes(8, "big"), _TAIL)
        commit_strict(self.fd, data, end - len(data), publication, self.path)
        return header

    def sync(self) -> None:
        """Put on stable storage what any program wrote here.  Raises: PoisonedError."""
        sync(self.fd, self.path)

    def publish(self, header: LogHeader) -> None:
        """Write a header whose data is there already, without a sync."""
        write_at(self.fd, header.published(), PUBLISHED.start, self.path)

    def close_at(self, header: LogHeader, next_number: int) -> None:
        """The end of a cutover, once file `next_number` has its name: name it here, close, sync, cut to the tail."""
        write_at(self.fd, next_number.to_bytes(4, "big"), _NEXT, self.path)
        write_at(self.fd, Status.CLOSED.to_bytes(2, "big"), _STATUS, self.path)
        self.sync()
        if header.ours:
            write_at(self.fd, _next_bell(header.doorbell).to_bytes(4, "big"), _BELL, self.path)
        self.cut(header.tail)

    def cut(self, tail: int) -> None:
        """Give back the space prepared beyond the tail, which must have been read under this lock."""
        if os.fstat(self.fd).st_size > tail:
            # It is only space: where it cannot be given back now, the next writer that opens the log tries again.
            with suppress(OSError):
                os.ftruncate(self.fd, max(tail, HEADER_BYTES))

    def wake(self) -> None:
        """Wake every reader that waits on this file.  After unlocking: they would only wait for us."""
        if self._doorbell is None:
            self._doorbell = Doorbell(self.fd, _BELL)
        self._doorbell.wake()

    def close(self) -> None:
        """Close the descriptor, and so free its lock."""
        if self._doorbell is not None:
            self._doorbell.close()
        self._descriptor.close()

    def _make_room(self, tail: int, end: int) -> None:
        """Let the file reach beyond `end`, in steps that grow with it, so that few syncs must record a new size."""
        size = os.fstat(self.fd).st_size
        if end <= size:
            return
        step = min(max(tail, PREPARE_BYTES_FIRST), self._prepare_bytes)
        try:
            allocate(self.fd, size, max(end, size + step), self.path)
        except FullError:
            # A nearly full disk, or a limit on the file's size, may still have room for this one.
            size = os.fstat(self.fd).st_size
            if size < end:
                allocate(self.fd, size, end, self.path)

    def mark_poisoned(self, error: PoisonedError) -> None:
        """Tell every other writer, through the file, that a write or sync failed here."""
        cause = error.__cause__
        if not isinstance(cause, OSError):
            return  # it was read from the file
        try:
            header = read_header(self.fd, self.number, self.path)
            if header.ours:
                self.publish(replace(header, flags=header.flags | Flag.POISON, poison_errno=cause.errno or 0))
        except BinlogError as failure:
            error.add_note(f"the file could not be marked: {failure}")


def _next_bell(bell: int) -> int:
    return (bell + 1) & 0xFFFFFFFF
