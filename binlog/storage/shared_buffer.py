"""A run of shared memory that outlives the process that filled it.

Facts relied on:
- shm_overview(7): what is in /dev/shm goes with the machine, and not with a process.
- posix_fallocate(3) works there: memory that was given so is there when it is stored to, where a store to a page that
  cannot be had would be SIGBUS.
"""

from __future__ import annotations

import os
from contextlib import suppress

import posix_ipc

from binlog.errors import AccessError
from binlog.storage.failures import own_errors
from binlog.storage.file_access import FileAccess, give_access
from binlog.storage.files import allocate
from binlog.storage.mapping import Mapping

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

    def _sized(self, fd: int, size: int) -> Mapping:
        try:
            with own_errors(self.path, "sizing shared memory"):
                os.ftruncate(fd, size)
            allocate(fd, 0, size, self.path)
            return Mapping(fd, size, self.path)
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
