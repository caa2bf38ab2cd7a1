"""Records that are written beside a log, by any process, to be appended to it later all at once.

A draft has a file's first 256 bytes free, and its records lie where a log file's do.  So one that was synced becomes
a file of the log as it is (`Writer.append_drafts`); one that was not is read back and copied, and its CRC tells what a
disk or a machine has lost of it meanwhile.  On a file system that machines share, a close sends what was written, and
an open asks for it anew (nfs(5), on close-to-open cache consistency).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from binlog.errors import CorruptError
from binlog.format.index_file import RANGE_BYTES_MAX, Ranges
from binlog.format.log_header import FIRST_OFFSET
from binlog.format.record import LENGTH_BYTES
from binlog.log.batch import Batch
from binlog.log.options import WriterOptions
from binlog.storage.descriptors import close_own, identity_of
from binlog.storage.failures import own_errors
from binlog.storage.file_access import access_of_directory
from binlog.storage.files import create_file, flags_to_open, open_directory
from binlog.storage.native import lib

_READ_BYTES = 1 << 20
# How much is written before the kernel is told to begin with the disk.
_WRITTEN_OUT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft that is finished.  It may be sent to the process that appends it; the file is not to be changed.

    path: of the file.  record_count: of all of it.  end: where the last record ends, so the file's size.
    crc: CRC-32C of the records with their lengths.  durable: whether it was synced.
    entries: those of the index of a log file whose records these are, counted from 0, with neither a time nor the
        checksum that they will have there.
    """

    path: str
    record_count: int
    end: int
    crc: int
    durable: bool
    entries: bytes

    @property
    def size(self) -> int:
        """Bytes of the records with their lengths."""
        return self.end - FIRST_OFFSET

    def read(self) -> Iterator[Batch]:
        """The records; each batch is good until the next one is asked for, which takes its memory.

        Raises: AccessError; CorruptError where these are not the bytes that were written, at the end at the latest.
        """
        with own_errors(self.path, "opening what was written aside"):
            fd = os.open(self.path, flags_to_open(writable=False))
        try:
            yield from self._read(fd)
        finally:
            os.close(fd)

    def _read(self, fd: int) -> Iterator[Batch]:
        path, end, count, crc = self.path, self.end, 0, 0
        memory = memoryview(bytearray(_READ_BYTES))
        at, wanted = FIRST_OFFSET, _READ_BYTES
        while at < end:
            wanted = min(wanted, end - at)
            if wanted > len(memory):
                memory = memoryview(bytearray(wanted))
            with own_errors(path, "reading what was written aside"):
                data = _read_into(fd, memory[:wanted], at)
            batch = _whole_records(data, path, at)
            if len(batch):
                yield batch
                count += len(batch)
                crc = batch.crc32c(crc)
                at, wanted = at + batch.offsets[-1], _READ_BYTES
                continue
            record_bytes = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            if len(data) < wanted or not wanted < record_bytes <= end - at:
                raise CorruptError(path, at, "draft", f"the {self.size} bytes that were written are not there any more")
            wanted = record_bytes
        if (count, crc) != (self.record_count, self.crc):
            raise CorruptError(path, 0, "draft", f"the {self.size} bytes that were written have others in their place")

    def remove(self) -> None:
        """Remove the file.  What cannot be removed is only space."""
        with suppress(OSError):
            os.unlink(self.path)


class Draft:
    """Records of a new file, which must not be there yet; in the log's directory, or on its file system.

    durable_from: a draft of so many bytes or more is synced when it is finished, and the disk begins before; a smaller
        one is only good to be copied.
    record_bytes_max: the largest record accepted, 64 MiB unless told; whoever appends the draft asks no more.
    Leaving its `with` block gives the file back, finished or not.
    Raises: AccessError, FullError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durable_from: int = 0,
        record_bytes_max: int = WriterOptions.record_bytes_max,
    ) -> None:
        self.path = os.path.abspath(path)  # for whoever appends it, which may be in another directory
        self._durable_from = durable_from
        self._record_bytes_max = record_bytes_max
        self._fd = -1  # what `close` finds where making it fails
        self._end = self._written_out = FIRST_OFFSET
        self._count = 0
        self._ranges = Ranges(FIRST_OFFSET, 0, seed=0)
        self._entries = bytearray()
        self._small = bytearray()  # what is still to have an entry, for one for each of such batches would be too many
        folder_fd = open_directory(os.path.dirname(self.path))
        try:
            # It stays its maker's, who alone may have the log adopt it; the log then gives it another owner.
            access = access_of_directory(folder_fd)._replace(owner=os.geteuid())
            self._fd = create_file(folder_fd, os.path.basename(self.path), self.path, access)
            self._identity = identity_of(self._fd)
        finally:
            os.close(folder_fd)

    @property
    def size(self) -> int:
        """Bytes of the records so far, with their lengths."""
        return self._end - FIRST_OFFSET

    def append(self, batch: Batch) -> None:
        """Write the records of a batch behind the others.

        Raises: FullError for a record that is larger, or where there is no space; AccessError; ValueError for a batch
        whose data are not the records that its offsets say.
        """
        data = batch.framed(record_bytes_max=self._record_bytes_max)
        at = self._end
        left = data
        while left:
            with own_errors(self.path, "writing aside"):
                left = left[(done := os.pwrite(self._fd, left, at)) :]
            at += done
        self._end = at
        self._count += len(batch)
        self._tell_ranges(data)
        if self._end - self._written_out >= _WRITTEN_OUT_BYTES and self.size >= self._durable_from:
            # So that the disk works while records still come.  It may not be possible; the sync tells what went wrong.
            lib.binlog_write_out(self._fd, self._written_out, self._end - self._written_out, False)
            self._written_out = self._end

    def finish(self) -> Drafted:
        """The draft, its file closed, and synced where it is as large as was said.  Raises: FullError, AccessError."""
        if self._small:
            self._entries += self._ranges.build(self._small, to_end=True)
            self._small.clear()
        durable = self.size >= self._durable_from
        if durable:
            with own_errors(self.path, "a sync of what was written aside"):
                os.fdatasync(self._fd)
        fd, self._fd = self._fd, -1
        with own_errors(self.path, "closing what was written aside"):
            os.close(fd)  # which tells, on NFS, what could not be written
        return Drafted(self.path, self._count, self._end, self._ranges.crc, durable, bytes(self._entries))

    def close(self) -> None:
        """Give the file back.  It stays where it is."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close_own(fd, self._identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _tell_ranges(self, data: memoryview) -> None:
        if self._small or len(data) < RANGE_BYTES_MAX:
            self._small += data
            if len(self._small) < RANGE_BYTES_MAX:
                return
            self._entries += self._ranges.build(self._small, to_end=True)
            self._small.clear()
            return
        self._entries += self._ranges.build(data, to_end=True)


def _read_into(fd: int, memory: memoryview, at: int) -> memoryview:
    """As much of the memory as the file has bytes for, filled: one call gives 2 GiB at most (read(2))."""
    done = 0
    while done < len(memory) and (more := os.preadv(fd, [memory[done:]], at + done)):
        done += more
    return memory[:done]


def _whole_records(data: memoryview, path: str, at: int) -> Batch:
    try:
        return Batch.from_framed(data)
    except ValueError as error:
        raise CorruptError(path, at, "draft", f"these are not the records that were written: {error}") from error


def used_up(drafts: Iterable[Drafted]) -> Iterator[Batch]:
    """The records of drafts, each of which is removed once whoever asks goes on behind it: two copies of all of it may
    be more memory than there is at hand (docs/decisions/0029-where-sparks-time-goes.md).
    """
    for draft in drafts:
        yield from draft.read()
        draft.remove()
