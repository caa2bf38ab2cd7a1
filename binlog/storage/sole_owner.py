"""That one process has a directory, and in it one object.

Facts relied on:
- flock(2): the lock is of the directory itself, whatever it is named and whatever lies in it; it goes when the last
  descriptor of the open file description is closed, so a forked child closes its own at once (native/fork.c).
- fcntl(2): a classic lock, which `fasteners` takes, is a process's own.  It would let the same process in twice, and
  goes with the first descriptor of the file that any part of the process closes.

So three things say that it is taken: the lock of the directory, which stays with it when it is moved, or when the lock
file is removed or exchanged; the lock of the lock file, which also holds where one directory has hard links to
another's files; and a list of what this process has.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from binlog.errors import AccessError, BinlogError, BusyError
from binlog.storage.descriptor import DirectoryDescriptor
from binlog.storage.failures import own_errors
from binlog.storage.files import open_file
from binlog.storage.locks import holder, is_locked, open_holder
from binlog.storage.native import fork_generation
from binlog.storage.ownership import only_owner

# By fork generation, device and inode.  One `setdefault` looks and takes: no lock for a child to find held, or a signal
# handler to wait for.
_owned: dict[tuple[int, int, int], SoleOwner] = {}


def find_owner(path: str, directory_fd: int, lock_name: str) -> tuple[bool, str | None]:
    """Whether a process has the directory, and a text that names it, where that can be known."""
    status = os.fstat(directory_fd)
    if (fork_generation(), status.st_dev, status.st_ino) in _owned:
        # Not even looked at: closing a descriptor of the lock file would give up this process's lock of it.
        return True, f"process {os.getpid()}"
    try:
        fd = open_file(directory_fd, lock_name, os.path.join(path, lock_name), writable=False)
    except BinlogError:
        return False, None  # no such file, or none that we may read
    try:
        return (True, holder(fd)) if is_locked(fd) else (False, None)
    finally:
        os.close(fd)


class SoleOwner:
    """A directory, for this object alone."""

    def __init__(self, path: str, directory_fd: int, lock_name: str, what: str) -> None:
        """Take it, at once or not at all.

        path: of the directory that `directory_fd` is open on.  lock_name: of a file in it, which is made and stays.
        what: it is called in errors: `journal`.
        Raises: BusyError, with the holder where it can be known; AccessError, also where `path` leads elsewhere by now.
        """
        self._generation = fork_generation()
        self._taken = contextlib.ExitStack()
        self._is_released = False
        self._own: DirectoryDescriptor | None = None
        with self._taken as taking:
            self._list(os.fstat(directory_fd), path, what)
            self._lock_directory(directory_fd, path, what)
            taking.enter_context(only_owner(os.path.join(path, lock_name), f"has the {what}"))
            self._list(_status(directory_fd, lock_name, path), path, what)
            with own_errors(path, "looking for the directory"):
                is_there = os.path.samestat(os.stat(path), os.fstat(directory_fd))
            if not is_there:
                raise AccessError(f"{path} was moved while it was opened", errno=errno.ESTALE, path=path)
            self._taken = taking.pop_all()

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child, and the directory its parent's; or this process closed all its descriptors.

        A daemon does that.  The lock went with them, and their numbers may be those of other files.
        """
        return fork_generation() != self._generation or self._is_lost

    def release(self) -> None:
        """Give it up; in a forked child, and a second time, it does nothing."""
        if self._generation == fork_generation() and not self._is_released:
            is_lost, self._is_released = self._is_lost, True
            if is_lost:
                self._forget()
            else:
                self._taken.close()

    @property
    def _is_lost(self) -> bool:
        return self._own is not None and not self._is_released and not self._own.intact

    def _forget(self) -> None:
        """Take it from the list of what this process has; its descriptors are not ours to close any more."""
        self._taken.pop_all()
        for key in [key for key, owner in _owned.items() if owner is self]:
            _owned.pop(key, None)

    def _list(self, status: os.stat_result, path: str, what: str) -> None:
        """Have it in the list of what this process has."""
        key = (self._generation, status.st_dev, status.st_ino)
        owner = _owned.setdefault(key, self)
        if owner is not self and owner._is_lost:
            owner, _owned[key] = self, self  # its lock went with its descriptors
        if owner is not self:
            raise BusyError(f"the {what} {path} belongs to this process already", holder=f"process {os.getpid()}")
        self._taken.callback(_owned.pop, key, None)

    def _lock_directory(self, directory_fd: int, path: str, what: str) -> None:
        self._own = own = DirectoryDescriptor(directory_fd, path)
        self._taken.callback(own.close)
        with own_errors(path, "locking the directory"):
            try:
                fcntl.flock(own.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = open_holder(own.fd)
            else:
                return
        raise BusyError(f"the {what} {path} belongs to {holder or 'another process'}", holder=holder)


def _status(directory_fd: int, name: str, path: str) -> os.stat_result:
    with own_errors(path, "looking for the lock file"):
        return os.stat(name, dir_fd=directory_fd, follow_symlinks=False)
