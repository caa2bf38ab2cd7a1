"""A whole file mapped for writing; see native/commitlog/mapping.c for the facts.

A run of shared memory that outlives the process that filled it.

Facts relied on:
- shm_overview(7): what is in /dev/shm goes with the machine, and not with a process.
- posix_fallocate(3) works there: memory that was given so is there when it is stored to, where a store to a page that
  cannot be had would be SIGBUS.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress

import posix_ipc

from binlog.errors import AccessError, ClosedError, InternalError, StateError
from binlog.storage.failures import failure, own_errors, poisoned, write_failure
from binlog.storage.file_access import FileAccess, give_access
from binlog.storage.files import allocate, write_at
from binlog.storage.native import address, ffi, fork_generation, lib, store_mapped

# Not more at once: the kernel keeps what one call writes in one piece of its cache, of up to megabytes, and a store
# through a mapping makes all of that piece due, so that a sync of a hundred bytes would write it whole.
_ZEROS = bytes(64 << 10)


class FileMapping:
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


_SHARED_MEMORY = "/dev/shm"
_MODE = 0o600


class SharedBuffer:
    """`size` bytes under a name, made where there are none; for one process at a time, which must see to that."""

    def __init__(self, name: str, size: int, access: FileAccess) -> None:
        """Raises: AccessError, FullError where there is not so much memory; then there is nothing of that name.

        access: whose it is, for root gives it to the owner of the files; nobody else may open it.
        """
        self.name = name
        self.path = f"{_SHARED_MEMORY}/{name}"
        try:
            memory = _opened(f"/{name}")
        except (posix_ipc.Error, OSError) as error:
            raise AccessError(f"{self.path} cannot be had: {error}", path=self.path) from error
        try:
            status = os.fstat(memory.fd)
            if status.st_uid == os.geteuid() and status.st_size == 0:
                give_access(memory.fd, access._replace(mode=_MODE), self.path)
            elif status.st_uid not in (os.geteuid(), access.owner):
                raise AccessError(f"{self.path} is another user's", path=self.path)
            self._mapping = self._sized(memory.fd, size)
        finally:
            memory.close_fd()
        # Stores all of some bytes at an offset; the mapping's own, for an append comes here.
        self.write = self._mapping.write

    def _sized(self, fd: int, size: int) -> FileMapping:
        try:
            with own_errors(self.path, "sizing shared memory"):
                os.ftruncate(fd, size)
            allocate(fd, 0, size, self.path)
            return FileMapping(fd, size, self.path)
        except BaseException:
            self.remove()
            raise

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return self._mapping.read(size, offset)

    def view(self, start: int, stop: int) -> memoryview:
        """What lies from `start` to before `stop`; not to be kept."""
        return self._mapping.view(start, stop)

    def remove(self) -> None:
        """Have nobody find it any more by its name."""
        with suppress(posix_ipc.ExistentialError):
            posix_ipc.unlink_shared_memory(f"/{self.name}")

    def close(self) -> None:
        """Unmap it; it stays, with what is in it."""
        self._mapping.close()


def _opened(name: str) -> posix_ipc.SharedMemory:
    # Not O_CREAT alone: root may not open another user's so (proc_sys_fs(5), protected_regular).
    try:
        return posix_ipc.SharedMemory(name, flags=posix_ipc.O_CREX, mode=_MODE)
    except posix_ipc.ExistentialError:
        return posix_ipc.SharedMemory(name)


def shared_names(prefix: str) -> list[str]:
    """The names in shared memory that begin so; none if the machine has no shared memory.  Raises: AccessError."""
    with own_errors(_SHARED_MEMORY, "listing shared memory"), suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(_SHARED_MEMORY) if name.startswith(prefix))
    return []
