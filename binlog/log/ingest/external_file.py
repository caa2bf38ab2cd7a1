"""External files: records that any process writes next to a log, to be added to it later, all at once.

The first 256 bytes of an external file are free, and its records start at the same offset as in a log file.  So a
synced one becomes a file of the log without a copy (`Writer.ingest`).  One that was not synced is read back and copied,
and its CRC detects bytes that a disk or a machine has lost meanwhile.  On a shared file system, closing a file sends
what was written, and opening it fetches it again (nfs(5), on close-to-open cache consistency).
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
# The writer asks the kernel to start writing each time it has written this much.
_WRITE_OUT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A finished external file.  It may be sent to the process that ingests it; the file must not change.

    path: of the file.  record_count: of all its records.  end: the offset after the last record, which is the file's
        size.
    crc: CRC-32C of the records with their lengths.  durable: whether the file was synced.
    entries: the index entries of a log file with these records, counted from 0, still without time and checksum.
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
        """Iterate over the records; each batch is valid until the next one, which takes its memory.

        Raises: AccessError; CorruptError, at the end at the latest, if these are not the bytes that were written.
        """
        with own_errors(self.path, "opening an external file"):
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
            with own_errors(path, "reading an external file"):
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
                raise CorruptError(
                    path, at, "external-file", f"some of the {self.size} bytes that were written are missing"
                )
            wanted = record_bytes
        if (count, crc) != (self.record_count, self.crc):
            raise CorruptError(path, 0, "external-file", f"the {self.size} bytes are not those that were written")

    def remove(self) -> None:
        """Remove the file.  If that fails, only space is lost."""
        with suppress(OSError):
            os.unlink(self.path)


class ExternalFileWriter:
    """Writes records to a new file, which must not exist, in the log's directory or on its file system.

    durable_from: a file of at least this size is synced when it is finished, and the kernel starts writing it early; a
        smaller one can only be copied to the log.
    record_bytes_max: the largest record accepted, 64 MiB by default; the process that ingests the file does not check
        again.
    Leaving its `with` block closes the file, finished or not.
    Raises: AccessError, FullError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durable_from: int = 0,
        record_bytes_max: int = WriterOptions.record_bytes_max,
    ) -> None:
        self.path = os.path.abspath(path)  # absolute, for an ingesting process in another directory
        self._durable_from = durable_from
        self._record_bytes_max = record_bytes_max
        self._fd = -1  # for `close`, if creating the file fails
        self._end = self._flushed_to = FIRST_OFFSET
        self._count = 0
        self._ranges = Ranges(FIRST_OFFSET, 0, seed=0)
        self._entries = bytearray()
        self._unindexed = (
            bytearray()
        )  # records without an index entry yet: one for each of so small batches would be too many
        folder_fd = open_directory(os.path.dirname(self.path))
        try:
            # The file belongs to its maker, because only its owner may have it ingested; the log then gives it another
            # owner.
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
        """Append the records of a batch.

        Raises: FullError for a record that is too large, or if there is no space; AccessError; ValueError if the
        batch's offsets do not match its data.
        """
        data = batch.framed(record_bytes_max=self._record_bytes_max)
        at = self._end
        left = data
        while left:
            with own_errors(self.path, "writing an external file"):
                left = left[(done := os.pwrite(self._fd, left, at)) :]
            at += done
        self._end = at
        self._count += len(batch)
        self._add_index_entries(data)
        if self._end - self._flushed_to >= _WRITE_OUT_BYTES and self.size >= self._durable_from:
            # The disk works while records still arrive.  This may fail; the sync reports the error.
            lib.binlog_write_out(self._fd, self._flushed_to, self._end - self._flushed_to, False)
            self._flushed_to = self._end

    def finish(self) -> ExternalFile:
        """Close the file and return it, synced if it has the size for that.  Raises: FullError, AccessError."""
        if self._unindexed:
            self._entries += self._ranges.build(self._unindexed, to_end=True)
            self._unindexed.clear()
        durable = self.size >= self._durable_from
        if durable:
            with own_errors(self.path, "a sync of an external file"):
                os.fdatasync(self._fd)
        fd, self._fd = self._fd, -1
        with own_errors(self.path, "closing an external file"):
            os.close(fd)  # on NFS, this reports a failed write
        return ExternalFile(self.path, self._count, self._end, self._ranges.crc, durable, bytes(self._entries))

    def close(self) -> None:
        """Close the file, which stays in its place."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close_own(fd, self._identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _add_index_entries(self, data: memoryview) -> None:
        if self._unindexed or len(data) < RANGE_BYTES_MAX:
            self._unindexed += data
            if len(self._unindexed) < RANGE_BYTES_MAX:
                return
            self._entries += self._ranges.build(self._unindexed, to_end=True)
            self._unindexed.clear()
            return
        self._entries += self._ranges.build(data, to_end=True)


def _read_into(fd: int, memory: memoryview, at: int) -> memoryview:
    """Fill the memory as far as the file has bytes, and return the filled part: one call reads at most 2 GiB
    (read(2))."""
    done = 0
    while done < len(memory) and (more := os.preadv(fd, [memory[done:]], at + done)):
        done += more
    return memory[:done]


def _whole_records(data: memoryview, path: str, at: int) -> Batch:
    try:
        return Batch.from_framed(data)
    except ValueError as error:
        raise CorruptError(
            path, at, "external-file", f"these are not the records that were written: {error}"
        ) from error


def consumed(files: Iterable[ExternalFile]) -> Iterator[Batch]:
    """Iterate over the records of external files, and remove each file after its last batch.

    Two copies of all the records may need more space than there is (docs/decisions/0029-where-sparks-time-goes.md).
    """
    for file in files:
        yield from file.read()
        file.remove()
