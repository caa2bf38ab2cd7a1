"""Which file a descriptor is open on: a program that closes all it has, as a daemon does, closes ours too.

Facts relied on:
- open(2): a new descriptor gets the lowest number that is free, so a number that was closed soon names another file.
- fstat(2): device and inode tell a file from every other that is there at the same time.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from binlog.storage.native import lib

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


def is_identity(fd: int, identity: Identity) -> bool:
    """Tell whether a descriptor is still open on the file that it was opened of."""
    return bool(lib.binlog_fd_is(fd, identity.device, identity.inode))


def close_own(fd: int, identity: Identity) -> None:
    """Close a descriptor, unless it was closed behind our back: then its number belongs to someone else."""
    lib.binlog_fd_close_own(fd, identity.device, identity.inode)
