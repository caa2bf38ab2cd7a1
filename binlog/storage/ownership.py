"""The coarse, rare exclusions: one owner of a thing at a time, among processes that ask for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import fasteners

from binlog.errors import AccessError, BusyError
from binlog.storage.failures import own_errors
from binlog.storage.file_access import FileAccess
from binlog.storage.files import create_file, open_directory


@contextmanager
def only_owner(path: str, what: str, access: FileAccess | None = None) -> Iterator[None]:
    """Hold the lock file at `path`, which stays, for the block.  Raises: BusyError, at once; AccessError.

    access: as in `create_file`, so that the next user may lock it too.
    """
    if os.path.islink(path):
        raise AccessError(f"{path} is a symbolic link", errno=errno.ELOOP, path=path)
    if not os.path.exists(path):
        _make(path, access)
    lock = fasteners.InterProcessLock(path)
    with own_errors(path, "locking"):
        taken = lock.acquire(blocking=False)
    if not taken:
        raise BusyError(f"{path} is locked: another process {what}", holder=None)
    try:
        yield
    finally:
        lock.release()


def _make(path: str, access: FileAccess | None) -> None:
    folder, name = os.path.split(path)
    directory_fd = open_directory(folder)
    try:
        os.close(create_file(directory_fd, name, path, access))
    except AccessError as error:
        if error.errno != errno.EEXIST:  # another process was quicker
            raise
    finally:
        os.close(directory_fd)
