"""Memory mapped for writing: whole files, and buffers in shared memory that outlive their process.

Facts relied on:
- native/commitlog/mapping.c has those about mapped files.
- shm_overview(7): bytes in /dev/shm survive a process, and not a restart of the machine.
- posix_fallocate(3) works in /dev/shm.  A store to allocated memory cannot fail; a store to a page that the kernel
  cannot allocate raises SIGBUS.
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
from binlog.storage.files import allocate, truncate, write_at
from binlog.storage.native import address, ffi, fork_generation, lib, store_mapped

# Write no more at once.  The kernel may cache the bytes of one call as one folio of up to megabytes, and a store
# through a mapping makes the whole folio dirty, so that a sync of a hundred bytes would write all of it.
_ZEROS = bytes(64 << 10)


class FileMapping:
    """A whole file mapped for writing.

    One thread at a time may write; any thread may read, until it is closed.  A forked child cannot use it.
    """

    def __init__(self, fd: int, file_bytes: int, path: str) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._generation = fork_generation()
        self._reading = threading.Lock()  # a read of memory that is being unmapped would raise SIGSEGV
        self._map = lib.binlog_map(fd, file_bytes)
        if self._map == ffi.NULL:
            raise failure(ffi.errno, path, "mapping the file")
        self._where = address(self._map)

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Store `data` at `offset`.  The pages there must have been populated.  Raises: ClosedError; StateError."""
        if not self._where:
            raise ClosedError(f"{self._path} is closed")
        result = store_mapped(self._where, self._file_bytes, self._generation, offset, data)
        if result:
            self.address()  # raises StateError in a forked child
            raise InternalError(f"{len(data)} bytes at {offset} are not within {self._path}")

    def read(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from `offset`; fewer only at the end of the file.  Raises: ClosedError."""
        size = max(min(size, self._file_bytes - offset), 0)
        with self._reading:
            return bytes(ffi.buffer(ffi.cast("uint8_t *", self.address()) + offset, size))

    def view(self, start: int, stop: int) -> memoryview:
        """Return a view of the bytes from `start` to before `stop`.  Do not use it after `close`."""
        size = max(min(stop, self._file_bytes) - start, 0)
        return memoryview(ffi.buffer(ffi.cast("uint8_t *", self.address()) + start, size))

    def populate(self, offset: int, size: int) -> None:
        """Load the pages of a range into memory, writable.  Raises: PoisonedError if the kernel cannot."""
        result = lib.binlog_map_populate(self.address(), offset, size)
        if result != 0:
            raise poisoned(-result, self._path, "making a page writable")

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
        """Return the pointer to the first byte.  Raises: ClosedError; StateError in a forked child."""
        if self._map == ffi.NULL:
            raise ClosedError(f"{self._path} is closed")
        if self._generation != fork_generation():
            raise StateError(f"{self._path} belongs to the parent process")
        return self._map


def write_zeros(fd: int, start: int, stop: int, path: str) -> None:
    """Write zeros from `start` to before `stop`.  Raises: FullError, PoisonedError."""
    for at in range(start, stop, len(_ZEROS)):
        write_at(fd, memoryview(_ZEROS)[: stop - at], at, path)


def erase(fd: int, start: int, stop: int, path: str) -> None:
    """Replace a range by zeros, without writing them if the file system can.  Raises: FullError, PoisonedError."""
    if stop <= start:
        return
    result = lib.binlog_erase(fd, start, stop - start)
    if result == -errno.EOPNOTSUPP:
        write_zeros(fd, start, stop, path)
    elif result != 0:
        raise write_failure(-result, path)


def erase_data(fd: int, start: int, stop: int, path: str) -> None:
    """Replace a range by zeros as `erase`, and leave its holes.  Raises: FullError, PoisonedError."""
    while start < stop:
        try:
            with own_errors(path, "searching for data"):
                start = os.lseek(fd, start, os.SEEK_DATA)
                end = min(os.lseek(fd, start, os.SEEK_HOLE), stop)
        except AccessError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # the rest is a hole
        erase(fd, start, end, path)
        start = end


_SHARED_MEMORY = "/dev/shm"
_MODE = 0o600


class SharedBuffer:
    """A named buffer in shared memory.  Its users must see to it that one process at a time has it."""

    def __init__(self, name: str, size: int, access: FileAccess) -> None:
        """Open the buffer, or make it if it does not exist.

        access: its owner, to whom root gives it.  Only that user may open it.
        Raises: AccessError; FullError if there is not enough memory.  If sizing or mapping fails, the name is removed.
        """
        self.name = name
        self.path = f"{_SHARED_MEMORY}/{name}"
        try:
            memory = _open_or_make(f"/{name}")
        except (posix_ipc.Error, OSError) as error:
            raise AccessError(f"{self.path} cannot be opened: {error}", path=self.path) from error
        try:
            status = os.fstat(memory.fd)
            if status.st_uid == os.geteuid() and status.st_size == 0:
                give_access(memory.fd, access._replace(mode=_MODE), self.path)
            elif status.st_uid not in (os.geteuid(), access.owner):
                raise AccessError(f"{self.path} belongs to another user", path=self.path)
            self._mapping = self._sized(memory.fd, size)
        finally:
            memory.close_fd()
        # The mapping's own method, because it is on the path of an append.
        self.write = self._mapping.write

    def _sized(self, fd: int, size: int) -> FileMapping:
        try:
            truncate(fd, size, self.path)
            allocate(fd, 0, size, self.path)
            return FileMapping(fd, size, self.path)
        except BaseException:
            self.remove()
            raise

    def read(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from `offset`; fewer only at the end."""
        return self._mapping.read(size, offset)

    def view(self, start: int, stop: int) -> memoryview:
        """Return a view of the bytes from `start` to before `stop`.  Do not use it after `close`."""
        return self._mapping.view(start, stop)

    def remove(self) -> None:
        """Remove the name; the memory stays until the last process unmaps it."""
        with suppress(posix_ipc.ExistentialError):
            posix_ipc.unlink_shared_memory(f"/{self.name}")

    def close(self) -> None:
        """Unmap the buffer; the name and the bytes stay."""
        self._mapping.close()


def _open_or_make(name: str) -> posix_ipc.SharedMemory:
    # Not with O_CREAT alone, with which root may not open another user's file (proc_sys_fs(5), protected_regular).
    try:
        return posix_ipc.SharedMemory(name, flags=posix_ipc.O_CREX, mode=_MODE)
    except posix_ipc.ExistentialError:
        return posix_ipc.SharedMemory(name)


def shared_names(prefix: str) -> list[str]:
    """Return the names in shared memory with a prefix, sorted; none without /dev/shm.  Raises: AccessError."""
    with own_errors(_SHARED_MEMORY, "listing shared memory"), suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(_SHARED_MEMORY) if name.startswith(prefix))
    return []
