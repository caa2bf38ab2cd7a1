"""A whole file mapped for writing; see native/mapping.c for the facts."""

from __future__ import annotations

import errno
import os
import threading

from binlog.errors import AccessError, ClosedError, InternalError, StateError
from binlog.storage.failures import failure, own_errors, poisoned, write_failure
from binlog.storage.files import write_at
from binlog.storage.native import address, ffi, fork_generation, lib, store_mapped

# Not more at once: the kernel keeps what one call writes in one piece of its cache, of up to megabytes, and a store
# through a mapping makes all of that piece due, so that a sync of a hundred bytes would write it whole.
_ZEROS = bytes(64 << 10)


class Mapping:
    """The file `fd`, of `file_bytes`, for one thread at a time to write, and any to read until it is closed.

    A forked child does not have it.
    """

    def __init__(self, fd: int, file_bytes: int, path: str) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._generation = fork_generation()
        self._reading = threading.Lock()  # nobody may read what is being unmapped: that would be SIGSEGV
        self._map = lib.binlog_map(fd, file_bytes)
        if self._map == ffi.NULL:
            raise failure(ffi.errno, path, "mapping the file")
        self._where = address(self._map)

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Store all of `data` at `offset`, where `make_ready` was before."""
        if not self._where:
            raise ClosedError(f"{self._path} is closed")
        result = store_mapped(self._where, self._file_bytes, self._generation, offset, data)
        if result:
            self.address()  # where this is a forked child, it says so
            raise InternalError(f"{len(data)} bytes at {offset} are not within {self._path}")

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only where the file ends.  Raises: ClosedError."""
        size = max(min(size, self._file_bytes - offset), 0)
        with self._reading:
            return bytes(ffi.buffer(ffi.cast("uint8_t *", self.address()) + offset, size))

    def view(self, start: int, stop: int) -> memoryview:
        """What lies from `start` to before `stop`; not to be kept until it is closed."""
        size = max(min(stop, self._file_bytes) - start, 0)
        return memoryview(ffi.buffer(ffi.cast("uint8_t *", self.address()) + start, size))

    def populate(self, offset: int, size: int) -> None:
        """Have the pages there be in memory.  Raises: PoisonedError where one cannot be."""
        result = lib.binlog_map_populate(self.address(), offset, size)
        if result != 0:
            raise poisoned(-result, self._path, "a page that cannot be had for writing")

    def close(self) -> None:
        """Unmap it; a second call does nothing."""
        with self._reading:
            map_, self._map, self._where = self._map, ffi.NULL, 0
        if map_ == ffi.NULL or self._generation != fork_generation():
            return
        result = lib.binlog_unmap(map_, self._file_bytes)
        if result != 0:
            raise InternalError(f"unmapping {self._path}: {os.strerror(-result)}")

    def __del__(self) -> None:
        if hasattr(self, "_map"):
            self.close()

    def address(self) -> object:
        if self._map == ffi.NULL:
            raise ClosedError(f"{self._path} is closed")
        if self._generation != fork_generation():
            raise StateError(f"{self._path} is the parent process's to write")
        return self._map


def write_zeros(fd: int, start: int, stop: int, path: str) -> None:
    """Write zeros from `start` to before `stop`.  Raises: FullError, PoisonedError."""
    for at in range(start, stop, len(_ZEROS)):
        write_at(fd, memoryview(_ZEROS)[: stop - at], at, path)


def erase(fd: int, start: int, stop: int, path: str) -> None:
    """Make zeros of what the file has there, if possible without writing them.  Raises: FullError, PoisonedError."""
    if stop <= start:
        return
    result = lib.binlog_erase(fd, start, stop - start)
    if result == -errno.EOPNOTSUPP:
        write_zeros(fd, start, stop, path)
    elif result != 0:
        raise write_failure(-result, path)


def erase_data(fd: int, start: int, stop: int, path: str) -> None:
    """As `erase`, but only where the file has blocks: a hole stays one.  Raises: FullError, PoisonedError."""
    while start < stop:
        try:
            with own_errors(path, "looking for data"):
                start = os.lseek(fd, start, os.SEEK_DATA)
                end = min(os.lseek(fd, start, os.SEEK_HOLE), stop)
        except AccessError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # nothing but a hole
        erase(fd, start, end, path)
        start = end
