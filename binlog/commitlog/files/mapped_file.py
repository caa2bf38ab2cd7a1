"""One file of a store: fixed in size, named by its start offset, and appended to through a mapping.

Invariant: 0 <= flushed <= committed <= wrote <= file_bytes.  As in RocketMQ, `wrote` is the end of the appended bytes,
`committed` the end of the bytes in the file, and `flushed` the end of the bytes on the disk.  `wrote` and `committed`
differ only if the file has a buffer: then bytes are appended to the buffer, and a commit writes them to the file.

If a store syncs each append, a CommitGroup buffers the bytes of its last file, and writes and syncs them together: then
`committed` equals `flushed`.  It calls pwrite(2), because a store through a mapping dirties a whole folio of the page
cache, 64 KiB or more, and the sync then writes all of it.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol

from binlog.errors import ClosedError, CorruptError, GoneError
from binlog.format.commitlog.names import mapped_file_name
from binlog.storage.directory import OpenFile
from binlog.storage.failures import own_errors
from binlog.storage.file_pool import FilePool, PooledFile
from binlog.storage.files import allocate, read_cached_at, sync, truncate, write_again, write_at
from binlog.storage.mapping import FileMapping, erase, erase_data, write_zeros
from binlog.storage.native import CommitGroup

PAGE_BYTES = 4096
_BLOCK_BYTES = 512  # the unit of st_blocks in stat(2), on every file system
# How far ahead of the stores the file is filled with zeros; most of them are overwritten before they reach the disk.
_AHEAD_BYTES = 4 << 20


class Buffer(Protocol):
    """Memory as large as a file; bytes are appended to it before they are written to the file."""

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Store all of `data` at `offset`."""

    def view(self, start: int, stop: int) -> memoryview:
        """Return the bytes from `start` up to `stop`."""

    def give_back(self) -> None:
        """Return the buffer to its owner."""


class MappedFile:
    """A file of `file_bytes` that starts at `offset` of the whole run of bytes.

    One thread at a time may append; any thread may commit, flush and read, while the file is open.
    Methods that touch the file raise AccessError, FullError, PoisonedError, and StateError in a forked child.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        offset: int,
        file_bytes: int,
        *,
        buffer: Buffer | None = None,
        ahead_bytes: int | None = None,
        files: FilePool | None = None,
    ) -> None:
        """Open the file in `folder`, or create it with its size and make both durable.

        All positions are 0.
        files: the open files of the store, if `folder` is a name in its directory.
        ahead_bytes: how many bytes get blocks at once as bytes are appended; None allocates the whole file at creation.
        Raises: CorruptError if the file has another size; GoneError if the path no longer leads to the store.
        """
        if files is None:
            files, folder = FilePool.of(folder), ""
        self.offset = offset
        self.file_bytes = file_bytes
        self.wrote = self._committed = self._flushed = 0
        self.store_ms = 0
        self._group: CommitGroup | None = None
        self._pinned: OpenFile | None = None
        self._files = files
        self._guard = files.guard
        self._name = os.path.join(folder, mapped_file_name(offset))
        self.path = files.directory.file_path(self._name)
        self._ahead_bytes = ahead_bytes
        self._buffer = buffer
        # A commit or a flush may take long; readers must not wait for it, so they do not take this lock.
        self._writing = threading.Lock()
        self._ready = 0
        if not files.directory.has(self._name):
            files.directory.check()
            files.directory.make(self._name)
        self._file = PooledFile(files, self._name)
        try:
            with self._file.open() as fd:
                self._check_size(fd)
                self._mapping: FileMapping | None = FileMapping(fd, file_bytes, self.path)
        except BaseException:
            self._file.close()
            raise

    def _check_size(self, fd: int) -> None:
        status = os.fstat(fd)
        found = status.st_size
        if found == 0:
            self._create(fd)
        elif found != self.file_bytes:
            raise CorruptError(self.path, 0, "file_bytes", f"the file has {found} bytes, not {self.file_bytes}")
        elif self._ahead_bytes is None and status.st_blocks * _BLOCK_BYTES < self.file_bytes:
            # Only if blocks are missing: fallocate changes the modification time, by which retention chooses files.
            allocate(fd, 0, self.file_bytes, self.path)

    def _create(self, fd: int) -> None:
        """Give the file its size and blocks, durably."""
        try:
            # The size comes first, so that after a crash the file is either empty or has its full size.
            truncate(fd, self.file_bytes, self.path)
            if self._ahead_bytes is None:
                allocate(fd, 0, self.file_bytes, self.path)
            sync(fd, self.path)
        except BaseException:
            # If it stayed without its blocks, the next open would take it for a complete file.
            self.remove()
            raise
        self._files.directory.sync(os.path.dirname(self._name))

    @property
    def end(self) -> int:
        """Return the start of the next file."""
        return self.offset + self.file_bytes

    @property
    def full(self) -> bool:
        """Return whether the file takes no more bytes."""
        return self.wrote == self.file_bytes

    @property
    def committed(self) -> int:
        """Return the end of the bytes that are in the file."""
        return self._committed if self._group is None else self._durable_position(self._group)

    @property
    def flushed(self) -> int:
        """Return the end of the bytes that are on the disk."""
        return self._flushed if self._group is None else self._durable_position(self._group)

    def _durable_position(self, group: CommitGroup) -> int:
        return max(self._flushed, min(group.durable, self.end) - self.offset)

    @property
    def fd(self) -> int:
        """Return the descriptor that a group writes to; only the last file of a queue has one."""
        assert self._pinned is not None
        return self._pinned.fd

    @property
    def flushed_whole(self) -> bool:
        """Return whether the file is full and flushed, so that only readers still use it."""
        return self.flushed == self.file_bytes

    @property
    def modified(self) -> float:
        """Return the modification time, in seconds since 1970 UTC."""
        with self._file.open() as fd, own_errors(self.path, "reading its times"):
            return os.fstat(fd).st_mtime

    def append(self, data: bytes | bytearray | memoryview) -> bool:
        """Append all of the bytes, or none if they do not fit; return whether they fit.  Durable after a flush."""
        start = self.wrote
        stop = start + len(data)
        if stop > self.file_bytes:
            return False
        mapping, is_usable = self._mapping, self._guard.failure is None
        if self._buffer is None and stop <= self._ready and mapping is not None and is_usable:  # the common case
            if self._group is not None:
                self._group.append(data, start, self.offset + stop)
            else:
                mapping.write(data, start)
                self._committed = stop
            self.wrote = stop
        elif self._buffer is not None and is_usable:
            self._buffer.write(data, start)
            self.wrote = stop
        else:
            self._put(data, stop)
        return True

    def fill(self, marker: bytes) -> int:
        """Append a marker in place of the rest of the file, which is then full; return the size of the rest."""
        rest = self.file_bytes - self.wrote
        self._put(marker, self.file_bytes)
        return rest

    def _put(self, data: bytes | bytearray | memoryview, stop: int) -> None:
        """Write the bytes at the end; `stop` is the new end."""
        mapping = self._check()
        start = self.wrote
        if self._buffer is not None:
            self._buffer.write(data, start)
            self.wrote = stop
        elif self._group is not None:
            self._make_ready(mapping, start + len(data))
            self._group.append(data, start, self.offset + stop)
            self.wrote = stop
        else:
            self._make_ready(mapping, start + len(data))
            mapping.write(data, start)
            self.wrote = self._committed = stop

    def attach_group(self, group: CommitGroup) -> tuple[int, bytes]:
        """Let a group write and sync later appends; return what it still has of the file before.

        Raises: AccessError, GoneError; the group keeps those bytes then.
        """
        self._pinned = self._file.open()
        rest = group.take_pending()
        group.open(self._pinned.fd, os.fsencode(self.path))
        self._group = group
        return rest

    def finish(self, data: bytes, offset: int) -> None:
        """Write and sync the last bytes of this file, which is full; the leader of the group calls this."""
        if data:  # else an earlier leader synced everything, and retention may have removed the file since
            with self._file.open() as fd:
                write_at(fd, data, offset, self.path)
                sync(fd, self.path)
        self._pinned = None

    def append_many(self, parts: list[bytes]) -> bool:
        """Append the concatenation of `parts`, as `append`."""
        return self.append(b"".join(parts))

    def is_able_to_commit(self, least_pages: int) -> bool:
        """Return whether a commit is due: the file is full, or that many pages were appended; any byte for 0.

        As in RocketMQ, a commit of a full file is always due; `commit` then does nothing if everything is committed.
        """
        return self.full or self._is_due(self.committed, self.wrote, least_pages)

    def is_able_to_flush(self, least_pages: int) -> bool:
        """Return whether a flush is due: the file is full, or that many pages were committed; any byte for 0.

        As in RocketMQ, a flush of a full file is always due; `flush` then does nothing if everything is flushed.
        """
        return self.full or self._is_due(self.flushed, self.committed, least_pages)

    @staticmethod
    def _is_due(done: int, to: int, least_pages: int) -> bool:
        return to > done if least_pages == 0 else to // PAGE_BYTES - done // PAGE_BYTES >= least_pages

    def commit(self, least_pages: int = 0) -> int:
        """Write the buffer to the file if that is due; return the end of the committed bytes."""
        if self._buffer is None or not self.is_able_to_commit(least_pages):
            return self.committed
        with self._writing:
            stop = self.wrote
            if self._buffer is None or stop == self.committed:
                return self.committed
            self._check()
            with self._files.change, self._file.open() as fd:
                write_at(fd, self._buffer.view(self.committed, stop), self.committed, self.path)
                self._committed = stop
                if stop == self.file_bytes:
                    self._buffer.give_back()
                    self._buffer = None
            return stop

    def check(self) -> None:
        """Raise GoneError if the name no longer leads to this file, because later appends would be lost."""
        if self._mapping is not None:
            self._file.check()

    def flush(self, least_pages: int = 0) -> int:
        """Sync the committed bytes if that is due; return the end of the flushed bytes.

        A failed sync leaves that end unchanged.  Raises GoneError as `check`, besides the errors of every method.
        """
        if self.flushed == self.committed or not self.is_able_to_flush(least_pages):
            return self.flushed
        with self._writing:
            stop = self.committed
            self._check()
            self.check()
            with self._file.open() as fd, self._files.change:
                sync(fd, self.path)
            self._flushed = stop
            return stop

    def read(self, size: int, position: int) -> bytes:
        """Read up to `size` committed bytes at `position`.  Raises: GoneError once the file is shut down."""
        if self._mapping is None:
            raise GoneError(f"{self.path} was removed, or closed")
        with self._file.open() as fd:
            return read_cached_at(fd, max(min(size, self.committed - position), 0), position, self.path)

    def move(self, position: int) -> None:
        """End the file at `position`: erase all bytes after it, and sync.  For recovery."""
        with self._writing:
            self._check()
            with self._files.change, self._file.open() as fd:
                if self._ahead_bytes is None:
                    erase(fd, position, self.file_bytes, self.path)
                else:
                    erase_data(fd, position, self.file_bytes, self.path)
                sync(fd, self.path)
            self.wrote = self._committed = self._flushed = self._ready = position

    def rewrite(self, stop: int) -> None:
        """Rewrite the bytes up to `stop`, and sync them.  For recovery: `write_again` says why."""
        with self._file.open() as fd:
            before = os.fstat(fd)
            with self._files.change:
                write_again(fd, stop, self.path)
                sync(fd, self.path)
            with own_errors(self.path, "setting its times"):
                os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))  # retention chooses files by this time

    def mark_full(self) -> None:
        """Count the whole file as appended and flushed, as `load` does with a file that it finds."""
        self.wrote = self._committed = self._flushed = self._ready = self.file_bytes

    def warm_up(self) -> None:
        """Write zeros to the unused rest and populate its pages, so that later appends do not wait."""
        self._make_ready(self._check(), self.file_bytes)

    def _make_ready(self, mapping: FileMapping, stop: int) -> None:
        """Write zeros up to `stop` at least, so that no append finds the disk full, and populate their pages."""
        if stop <= self._ready:
            return
        start, stop = self._ready, min(stop + (self._ahead_bytes or _AHEAD_BYTES), self.file_bytes)
        with self._files.change, self._file.open() as fd:
            write_zeros(fd, start, stop, self.path)
            if self._group is None:  # a group does not store through the mapping
                mapping.populate(start, stop - start)
        self._ready = stop

    def shut_down(self) -> None:
        """Refuse further use; the file is unmapped and closed after its last user is done.  A second call is
        allowed."""
        self._mapping = self._pinned = None
        self._file.close()
        # Bytes that could not be committed stay in the buffer; the next process that opens the store recovers them.
        if self._buffer is not None and self.committed == self.wrote:
            self._buffer.give_back()
        self._buffer = None

    def remove(self) -> None:
        """Remove the name; open readers can continue.  Durable with the next sync of the folder."""
        self._files.directory.remove(self._name)

    def _check(self) -> FileMapping:
        mapping = self._mapping
        if mapping is None:
            raise ClosedError(f"{self.path} is closed")
        mapping.address()  # raises in a forked child, whose zeros could overwrite the appends of its parent
        self._guard.check()
        return mapping
