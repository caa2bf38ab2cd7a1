"""File descriptors that a forked child does not keep.

Which file a descriptor is open on: a program that closes all it has, as a daemon does, closes ours too.

Facts relied on:
- open(2): a new descriptor gets the lowest number that is free, so a number that was closed soon names another file.
- fstat(2): device and inode tell a file from every other that is there at the same time.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from binlog.errors import InternalError
from binlog.storage.files import check_regular, flags_to_open, opening_failure
from binlog.storage.native import ffi, fork_generation, lib

AT_FDCWD = -100
"""Stands for the current directory, from which a path is looked up that begins with none (openat(2))."""


class Identity(NamedTuple):
    """Device and inode."""

    device: int
    inode: int


ANY_FILE = Identity(0, 0)
"""In place of an identity that does not matter: no file has the inode 0."""


def identity_of(fd: int) -> Identity:
    """Return which file a descriptor is open on, right after it was opened."""
    status = os.fstat(fd)
    return Identity(status.st_dev, status.st_ino)


def is_open_on(fd: int, identity: Identity) -> bool:
    """Tell whether a descriptor is still open on the file that it was opened of."""
    return bool(lib.binlog_fd_is(fd, identity.device, identity.inode))


def close_own(fd: int, identity: Identity) -> None:
    """Close a descriptor, unless it was closed behind our back: then its number belongs to someone else."""
    lib.binlog_fd_close_own(fd, identity.device, identity.inode)


class _Registered:
    """A descriptor that is closed in a child as soon as it is forked (see native/shared/fork.c).

    There the number may by then belong to another file, so `inherited` is to be asked before any use.

    status, identity: what it was opened of, as it was then.
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
        """Whether it was opened by a parent, and so is closed here."""
        return self._generation != fork_generation()

    @property
    def intact(self) -> bool:
        """Whether it is still open on what it was opened of, and was not closed behind our back."""
        return is_open_on(self.fd, self.identity)

    def close(self) -> None:
        """Close it, which also frees its lock.  Does nothing where it is inherited or closed, by whomever."""
        fd, serial = self._opened
        result = 0 if fd < 0 or self.inherited else lib.binlog_fd_close_serial(fd, serial)
        # Only now: if an exception of a signal handler came before, a second call closes it.
        self._opened[0] = self.fd = -1
        if result != 0:
            raise InternalError(f"closing descriptor {fd}: {os.strerror(-result)}")

    def __del__(self) -> None:
        if hasattr(self, "_opened"):  # else it was not opened
            self.close()


class Descriptor(_Registered):
    """A regular file that is there, open for reading and writing, or for reading alone."""

    __slots__ = ()

    def __init__(self, directory_fd: int, name: str, path: str, *, writable: bool = True) -> None:
        super().__init__(directory_fd, name, flags_to_open(writable=writable), path)
        try:
            check_regular(self.status, path)
        except BaseException:
            self.close()
            raise


class DirectoryDescriptor(_Registered):
    """A directory, opened once more than it is already."""

    __slots__ = ()

    def __init__(self, directory_fd: int, path: str) -> None:
        super().__init__(directory_fd, os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, path)
