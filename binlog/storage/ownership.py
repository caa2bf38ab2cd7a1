"""The coarse, rare exclusions: one owner of a thing at a time, among processes that ask for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import fasteners

from binlog.errors import AccessError, BusyError
from binlog.storage.failures import own_errors


@contextmanager
def only_owner(path: str, what: str) -> Iterator[None]:
    """Hold the lock file at `path`, which stays, for the block.  Raises: BusyError, at once; AccessError."""
    if os.path.islink(path):
        raise AccessError(f"{path} is a symbolic link", errno=errno.ELOOP, path=path)
    lock = fasteners.InterProcessLock(path)
    with own_errors(path, "locking"):
        taken = lock.acquire(blocking=False)
    if not taken:
        raise BusyError(f"{path} is locked: another process {what}", holder=None)
    try:
        yield
    finally:
        lock.release()
