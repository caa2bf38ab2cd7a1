"""A file descriptor that a forked child does not keep."""

from __future__ import annotations

import os

from binlog.errors import InternalError
from binlog.storage.native import fork_generation, lib


class Descriptor:
    """Owns `fd`, which is closed in a child as soon as it is forked (see native/fork.c).

    In the child the number may by then belong to another file, so `inherited` is to be asked before any use there.
    """

    __slots__ = ("_generation", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._generation = fork_generation()
        result = lib.binlog_fd_guard(fd)
        if result != 0:
            os.close(fd)
            raise MemoryError("no room to register a descriptor")

    @property
    def inherited(self) -> bool:
        """Whether it was opened by a parent, and so is closed here."""
        return self._generation != fork_generation()

    def close(self) -> None:
        """Close it, which also frees its lock.  Does nothing where it is inherited or closed."""
        fd, self.fd = self.fd, -1
        if fd < 0 or self.inherited:
            return
        result = lib.binlog_fd_close(fd)
        if result != 0:
            raise InternalError(f"closing descriptor {fd}: {os.strerror(-result)}")

    def __del__(self) -> None:
        self.close()
