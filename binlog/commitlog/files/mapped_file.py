"""One file of a store: of a fixed size, named by where it starts, and appended to through a mapping.

Invariant: 0 <= flushed <= committed <= wrote <= file_bytes.  As in RocketMQ `wrote` is up to where bytes were appended,
`committed` up to where they are in the file, and `flushed` up to where they are on the disk.  The first two differ only
where a file has a buffer: bytes are then appended to that, and a commit writes them to the file.

If a store syncs each append, a CommitGroup has a buffer for its last file, and writes and syncs that at once: then
`committed` is `flushed`.  It calls pwrite(2).  A store through a mapping makes a whole folio of the page cache due, of
64 KiB or more, and the sync then writes all of it.
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
from binlog.storage.files import allocate, read_at, read_cached_at, sync, write_at
from binlog.storage.mapping import FileMapping, erase, erase_data, write_zeros
from binlog.storage.native import CommitGroup

PAGE_BYTES = 4096
_BLOCK_BYTES = 512  # stat(2), whatever the file system's are
# How far ahead of the stores the file is given zeros, which mostly are overwritten before they come to the disk.
_AHEAD_BYTES = 4 << 20
_ANEW_BYTES = 1 << 20


class Buffer(Protocol):
    """Memory as large as a file, to which bytes are appended before they are written to the file."""

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Store all of `data` at `offset`."""

    def view(self, start: int, stop: int) -> memoryview:
        """What lies from `start` to before `stop`."""

    def give_back(self) -> None:
        """It is not needed any more."""


class MappedFile:
    """A file of `file_bytes` that starts at `offset` of the whole.

    One thread at a time may append; any may commit, flush and read.  Each needs it open.
    Raises, in all that touches the file: AccessError, FullError; PoisonedError; StateError in a forked child.
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
        """Open the file in `folder`, or make it: then its name and its size are durable.

        Its positions are 0.
        files: of the store in whose directory the folder has that name.
        ahead_bytes: how much of it gets blocks at once as bytes are appended; None for all of it when it is made.
        Raises: CorruptError where it has another size; GoneError where the path of the store leads elsewhere by now.
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
        # Who commits or flushes may take long, and nobody who reads waits for that.
        self._putting = threading.Lock()
        self._ready = 0
        if not files.directory.has(self._name):
            files.directory.check()
            files.directory.make(self._name)
        self._file = PooledFile(files, self._name)
        try:
            with self._file.open() as fd:
                self._size(fd)
                self._mapping: FileMapping | None = FileMapping(fd, file_bytes, self.path)
        except BaseException:
            self._file.close()
            raise

    def _size(self, fd: int) -> None:
        status = os.fstat(fd)
        found = status.st_size
        if found == 0:
            self._make(fd)
        elif found != self.file_bytes:
            raise CorruptError(self.path, 0, "file_bytes", f"the file has {found} bytes, and not {self.file_bytes}")
        elif self._ahead_bytes is None and status.st_blocks * _BLOCK_BYTES < self.file_bytes:
            # Only where some are missing: giving blocks counts as writing, and old files go by when they were written.
            allocate(fd, 0, self.file_bytes, self.path)

    def _make(self, fd: int) -> None:
        """Give it its size and its blocks, durably."""
        try:
            # The size first: so after a crash it is empty, or as long as it should be.
            with own_errors(self.path, "sizing the file"):
                os.ftruncate(fd, self.file_bytes)
            if self._ahead_bytes is None:
                allocate(fd, 0, self.file_bytes, self.path)
            sync(fd, self.path)
        except BaseException:
            # Without its blocks it would be taken for one that was there before.
            self.remove()
            raise
        self._files.directory.sync(os.path.dirname(self._name))

    @property
    def end(self) -> int:
        """Where the file after it starts."""
        return self.offset + self.file_bytes

    @property
    def full(self) -> bool:
        """Whether nothing more can be appended."""
        return self.wrote == self.file_bytes

    @property
    def committed(self) -> int:
        """Up to where bytes are in the file."""
        return self._committed if self._group is None else self._reached(self._group)

    @property
    def flushed(self) -> int:
        """Up to where bytes are on the disk."""
        return self._flushed if self._group is None else self._reached(self._group)

    def _reached(self, group: CommitGroup) -> int:
        return max(self._flushed, min(group.durable, self.end) - self.offset)

    @property
    def fd(self) -> int:
        """The descriptor that a group writes to; only of its last file."""
        assert self._pinned is not None
        return self._pinned.fd

    @property
    def flushed_whole(self) -> bool:
        """Whether it is full and flushed, so that nobody but readers has anything to do with it."""
        return self.flushed == self.file_bytes

    @property
    def modified(self) -> float:
        """When it was written last, in seconds since 1970 UTC."""
        with self._file.open() as fd, own_errors(self.path, "asking for its times"):
            return os.fstat(fd).st_mtime

    def append(self, data: bytes | bytearray | memoryview) -> bool:
        """Append the bytes, all or none; whether they fit.  Durable once they are flushed."""
        start = self.wrote
        stop = start + len(data)
        if stop > self.file_bytes:
            return False
        mapping, is_usable = self._mapping, self._guard.failure is None
        if self._buffer is None and stop <= self._ready and mapping is not None and is_usable:  # what mostly is so
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
        """Append a marker that stands for all the rest of the file, and have it be full; how many bytes that is."""
        rest = self.file_bytes - self.wrote
        self._put(marker, self.file_bytes)
        return rest

    def _put(self, data: bytes | bytearray | memoryview, stop: int) -> None:
        """Put the bytes at the end, which is then at `stop`."""
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

    def flush_by(self, group: CommitGroup) -> tuple[int, bytes]:
        """Have a group write and sync what is appended from here on; return what it has of the file before.

        Raises: AccessError, GoneError; then the group has that still.
        """
        self._pinned = self._file.open()
        rest = group.take_pending()
        group.open(self._pinned.fd, os.fsencode(self.path))
        self._group = group
        return rest

    def finish(self, data: bytes, offset: int) -> None:
        """Write the last bytes of this file, which is full, and sync it; the leader of the group calls this."""
        if data:  # else the leader before has synced all, and the file may be removed by now
            with self._file.open() as fd:
                write_at(fd, data, offset, self.path)
                sync(fd, self.path)
        self._pinned = None

    def append_many(self, parts: list[bytes]) -> bool:
        """The same, for all of them together."""
        return self.append(b"".join(parts))

    def is_able_to_commit(self, least_pages: int) -> bool:
        """Whether a commit is due: the file is full, or so many pages were appended; anything at all for 0.

        As in RocketMQ it is due for a full file whatever was committed; `commit` then has nothing to do.
        """
        return self.full or self._due(self.committed, self.wrote, least_pages)

    def is_able_to_flush(self, least_pages: int) -> bool:
        """Whether a flush is due: the file is full, or so many pages were committed; anything at all for 0.

        As in RocketMQ it is due for a full file whatever was flushed; `flush` then has nothing to do.
        """
        return self.full or self._due(self.flushed, self.committed, least_pages)

    @staticmethod
    def _due(done: int, to: int, least_pages: int) -> bool:
        return to > done if least_pages == 0 else to // PAGE_BYTES - done // PAGE_BYTES >= least_pages

    def commit(self, least_pages: int = 0) -> int:
        """Write what is in the buffer to the file, where that is due; up to where it is committed."""
        if self._buffer is None or not self.is_able_to_commit(least_pages):
            return self.committed
        with self._putting:
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
        """Raise GoneError if its name no longer leads to it: what is appended would be lost."""
        if self._mapping is not None:
            self._file.check()

    def flush(self, least_pages: int = 0) -> int:
        """Sync what is committed, where that is due; up to where it is flushed, which a failure does not move.

        Raises, besides: GoneError, as `check`.
        """
        if self.flushed == self.committed or not self.is_able_to_flush(least_pages):
            return self.flushed
        with self._putting:
            stop = self.committed
            self._check()
            self.check()
            with self._file.open() as fd, self._files.change:
                sync(fd, self.path)
            self._flushed = stop
            return stop

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`, of those that are committed.  Raises: GoneError once it is shut down."""
        if self._mapping is None:
            raise GoneError(f"{self.path} was removed, or closed")
        with self._file.open() as fd:
            return read_cached_at(fd, max(min(size, self.committed - position), 0), position, self.path)

    def move(self, position: int) -> None:
        """Have it end there, for good: what lies behind is erased, and that is synced.  For recovery."""
        with self._putting:
            self._check()
            with self._files.change, self._file.open() as fd:
                if self._ahead_bytes is None:
                    erase(fd, position, self.file_bytes, self.path)
                else:
                    erase_data(fd, position, self.file_bytes, self.path)
                sync(fd, self.path)
            self.wrote = self._committed = self._flushed = self._ready = position

    def write_anew(self, stop: int) -> None:
        """Write again what was found in it up to there, and sync that.  For recovery.

        A process that was killed leaves bytes that nobody has synced; and where a sync had failed, a second one would
        say that all is well without writing them (fsync(2)).
        """
        with self._file.open() as fd:
            before = os.fstat(fd)
            with self._files.change:
                for at in range(0, stop, _ANEW_BYTES):
                    data = read_at(fd, min(_ANEW_BYTES, stop - at), at, self.path)
                    write_at(fd, data, at, self.path)
                sync(fd, self.path)
            with own_errors(self.path, "setting its times"):
                os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))  # by which old files go

    def take_as_full(self) -> None:
        """Take all of it for appended and flushed, as it is for a file that was found."""
        self.wrote = self._committed = self._flushed = self._ready = self.file_bytes

    def warm_up(self) -> None:
        """Write zeros to all that is not appended yet, and have it in memory: later appends wait for nothing."""
        self._make_ready(self._check(), self.file_bytes)

    def _make_ready(self, mapping: FileMapping, stop: int) -> None:
        """Write zeros up to `stop` at least, so that no append finds the disk full, with pages for the mapping."""
        if stop <= self._ready:
            return
        start, stop = self._ready, min(stop + (self._ahead_bytes or _AHEAD_BYTES), self.file_bytes)
        with self._files.change, self._file.open() as fd:
            write_zeros(fd, start, stop, self.path)
            if self._group is None:  # else nothing is stored through the mapping
                mapping.populate(start, stop - start)
        self._ready = stop

    def shut_down(self) -> None:
        """Let nobody use it any more; it is unmapped, and closed, once nobody does.  It can be called again."""
        self._mapping = self._pinned = None
        self._file.close()
        # What could not be committed stays in the buffer, for who opens the store next.
        if self._buffer is not None and self.committed == self.wrote:
            self._buffer.give_back()
        self._buffer = None

    def remove(self) -> None:
        """Remove its name; who reads it goes on.  Durable with the folder's next sync."""
        self._files.directory.remove(self._name)

    def _check(self) -> FileMapping:
        mapping = self._mapping
        if mapping is None:
            raise ClosedError(f"{self.path} is closed")
        mapping.address()  # a forked child has none: its zeros would lie over what its parent appended meanwhile
        self._guard.check()
        return mapping
