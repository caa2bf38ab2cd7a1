"""The coarse, rare exclusions: one owner of a thing at a time, among processes that ask for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import fasteners

from binlog.errors import AccessError, BusyError
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.file_access import FileAccess


@contextmanager
def only_owner(directory: Directory, name: str, what: str, access: FileAccess | None = None) -> Iterator[None]:
    """Hold a lock file for the block.  Raises: BusyError, at once; AccessError.

    what: another process does that has it.  access: as for `take_lock_file`.
    """
    lock = take_lock_file(directory, name, access)
    if lock is None:
        raise BusyError(f"{directory.file_path(name)} is locked: another process {what}", holder=None)
    try:
        yield
    finally:
        lock.release()


def take_lock_file(
    directory: Directory, name: str, access: FileAccess | None = None
) -> fasteners.InterProcessLock | None:
    """Lock a file, which is made if it is not there, and stays; None if another process has it.  Raises: AccessError.

    access: as for `Directory.create`, so that the next user may lock it too.
    """
    path = directory.file_path(name)
    if os.path.islink(path):
        raise AccessError(f"{path} is a symbolic link", errno=errno.ELOOP, path=path)
    if not directory.has(name):
        try:
            directory.close_file(directory.create(name, access))
        except AccessError as error:
            if error.errno != errno.EEXIST:  # another process was quicker
                raise
    lock = fasteners.InterProcessLock(path)
    with own_errors(path, "locking"):
        return lock if lock.acquire(blocking=False) else None
