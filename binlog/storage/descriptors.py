"""File descriptors that a forked child closes, and the identity of the file that each one is open on.

A program that closes all its descriptors, as a daemon does, closes ours too, so each use of a number that may be
reused compares the file's identity first.

Facts relied on:
- open(2): a new descriptor gets the lowest free number, so the number of a closed descriptor soon names another file.
- fstat(2): device and inode distinguish a file from every other that exists at the same time.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from binlog.errors import AccessError, InternalError
from binlog.storage.files import check_regular, flags_to_open, opening_failure
from binlog.storage.native import ffi, fork_generation, lib

AT_FDCWD = -100
"""The current directory, in place of a descriptor (openat(2))."""


class Identity(NamedTuple):
    """Device and inode of a file."""

    device: int
    inode: int


ANY_FILE = Identity(0, 0)
"""An identity that matches any file; no file has the inode 0."""


def identity_of(fd: int) -> Identity:
    """Return the identity of the file that a descriptor is open on.  Call it right after opening."""
    status = os.fstat(fd)
    return Identity(status.st_dev, status.st_ino)


def is_open_on(fd: int, identity: Identity) -> bool:
    """Return whether a descriptor is still open on the file with this identity."""
    return bool(lib.binlog_fd_is(fd, identity.device, identity.inode))


def close_own(fd: int, identity: Identity) -> None:
    """Close a descriptor, unless the program closed it already and its number now names another file."""
    lib.binlog_fd_close_own(fd, identity.device, identity.inode)


class _ForkSafeDescriptor:
    """A descriptor that a forked child closes at once (see native/shared/fork.c).

    In the child the number may name another file, so check `inherited` before any use.

    status, identity: of the file, as it was opened.
    """

    __slots__ = ("_generation", "_opened", "fd", "identity", "status")

    def __init__(self, directory_fd: int, name: str, flags: int, path: str) -> None:
        self._generation = fork_generation()
        self._opened = ffi.new("int64_t[2]", [-1, 0])
        self.fd = lib.binlog_fd_open(directory_fd, os.fsencode(name), flags, self._opened)
        if self.fd < 0:
            raise opening_failure(-self.fd, path)
        self.status = os.fstat(self.fd)
        self.identity = Identity(self.status.st_dev, self.status.st_ino)

    @property
    def inherited(self) -> bool:
        """Whether a parent process opened it, so that it is closed in this one."""
        return self._generation != fork_generation()

    @property
    def intact(self) -> bool:
        """Whether it is still open on the file, and the program has not closed it."""
        return is_open_on(self.fd, self.identity)

    def close(self) -> None:
        """Close it, which also frees its lock.  Does nothing if it is inherited or already closed."""
        fd, serial = self._opened
        result = 0 if fd < 0 or self.inherited else lib.binlog_fd_close_serial(fd, serial)
        # After the call: if a signal handler raised before it, a second `close` still finds the descriptor.
        self._opened[0] = self.fd = -1
        if result != 0:
            raise InternalError(f"closing descriptor {fd}: {os.strerror(-result)}")

    def __del__(self) -> None:
        if hasattr(self, "_opened"):  # an exception can end `__init__` before that
            self.close()


class Descriptor(_ForkSafeDescriptor):
    """An existing regular file, open for reading and writing, or for reading only."""

    __slots__ = ()

    def __init__(self, directory_fd: int, name: str, path: str, *, writable: bool = True) -> None:
        super().__init__(directory_fd, name, flags_to_open(writable=writable), path)
        try:
            check_regular(self.status, path)
        except BaseException:
            self.close()
            raise


class DirectoryDescriptor(_ForkSafeDescriptor):
    """A second descriptor of an open directory, with an open file description of its own."""

    __slots__ = ()

    def __init__(self, directory_fd: int, path: str) -> None:
        super().__init__(directory_fd, os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, path)


class FifoDescriptor(_ForkSafeDescriptor):
    """An existing FIFO, open for reading and writing, or for reading only.

    A reader learns when the last process that had the FIFO open for writing is gone (poll(2), POLLHUP), if the reader
    opened it before.  Opening does not block (fifo(7)).
    """

    __slots__ = ()

    def __init__(self, directory_fd: int, name: str, path: str, *, writable: bool) -> None:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        super().__init__(directory_fd, name, flags, path)
        if not stat.S_ISFIFO(self.status.st_mode):
            self.close()
            raise AccessError(f"{path} is not a FIFO", errno=errno.EINVAL, path=path)
