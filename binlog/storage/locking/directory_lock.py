"""That one process has a directory, and in it one object.

Facts relied on:
- flock(2): the lock is of the directory itself, whatever it is named and whatever lies in it; it goes when the last
  descriptor of the open file description is closed, so a forked child closes its own at once (native/shared/fork.c).
- fcntl(2): a classic lock, which `fasteners` takes, is a process's own.  It would let the same process in twice, and
  goes with the first descriptor of the file that any part of the process closes.

So three things say that it is taken: the lock of the directory, which stays with it when it is moved, or when the lock
file is removed or exchanged; the lock of the lock file, which also holds if one directory has hard links to another's
files; and a list of what this process has.  The list has no references that keep a lock: a lock that no object has any
more is given up.

The coarse, rare exclusions: one owner of a thing at a time, among processes that ask for it.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import ReferenceType, ref

import fasteners

from binlog.errors import AccessError, BusyError, NotFoundError
from binlog.storage.descriptors import DirectoryDescriptor
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.file_access import FileAccess
from binlog.storage.locking.locks import holder, is_locked, open_holder
from binlog.storage.native import Guard, fork_generation


@contextmanager
def hold_lock_file(directory: Directory, name: str, what: str, access: FileAccess | None = None) -> Iterator[None]:
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


_Key = tuple[int, int, int]

# By fork generation, device and inode.  One `setdefault` looks and takes: no lock for a child to find held, or a signal
# handler to wait for.
_owned: dict[_Key, ReferenceType[DirectoryLock]] = {}
# Lock files whose descriptors were closed behind our back: their numbers may be other files' by now, so they stay.
_lost: list[fasteners.InterProcessLock] = []


def find_owner(directory: Directory, lock_name: str) -> tuple[bool, str | None]:
    """Tell whether a process has the directory, and a text that names it, if that can be known."""
    status = os.fstat(directory.fd)
    owner = _owned.get((fork_generation(), status.st_dev, status.st_ino))
    if owner is not None and owner() is not None:
        # Not even looked at: closing a descriptor of the lock file would give up this process's lock of it.
        return True, f"process {os.getpid()}"
    with suppress(AccessError, NotFoundError), directory.opened(lock_name) as fd:
        return (True, holder(fd)) if is_locked(fd) else (False, None)
    return False, None  # no such file, or none that we may read


class DirectoryLock:
    """A directory, for one object alone."""

    def __init__(self, directory: Directory, lock_name: str, what: str) -> None:
        """Take it, at once or not at all.

        lock_name: of a file in it, which is made and stays.  what: it is called in errors: `journal`.
        Raises: BusyError, with the holder if it can be known; AccessError, also if the path leads elsewhere by now.
        """
        self._generation = fork_generation()
        self._path, self._what = directory.path, what
        self._keys: list[_Key] = []
        self._is_released = False
        self._own = DirectoryDescriptor(directory.fd, directory.path)
        self._file: fasteners.InterProcessLock | None = None
        try:
            self._take(directory, lock_name)
        except BaseException:
            self.release()
            raise

    def _take(self, directory: Directory, lock_name: str) -> None:
        path = directory.path
        self._list(os.fstat(directory.fd))
        self._lock_directory()
        self._file = take_lock_file(directory, lock_name)
        if self._file is None:
            text = f"{directory.file_path(lock_name)} is locked: another process has the {self._what}"
            raise BusyError(text, holder=None)
        with own_errors(path, "looking for the lock file"):
            self._list(os.stat(lock_name, dir_fd=directory.fd, follow_symlinks=False))
        with own_errors(path, "looking for the directory"):
            is_there = os.path.samestat(os.stat(path), os.fstat(directory.fd))
        if not is_there:
            raise AccessError(f"{path} was moved while it was opened", errno=errno.ESTALE, path=path)

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked child, and the directory its parent's."""
        return fork_generation() != self._generation

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child, and the directory its parent's; or this process closed all its descriptors.

        A daemon does that.  The lock went with them, and their numbers may be those of other files.
        """
        return self.is_forked or self._is_lost

    def bind(self, guard: Guard) -> None:
        """Have a guard refuse all entries once this is `inherited`."""
        guard.bind(self._own.fd, *self._own.identity)

    def clear_file(self) -> None:
        """Empty the lock file, which another program may have written to.  Raises: AccessError."""
        # By the descriptor that has the lock: closing another one would give it up (fcntl(2)).
        assert self._file is not None
        with own_errors(self._path, "emptying the lock file"):
            os.ftruncate(self._file.lockfile.fileno(), 0)

    def release(self) -> None:
        """Give it up; in a forked child, and a second time, it does nothing."""
        if self._is_released or self.is_forked:
            return
        file = self._file
        if file is not None and self._is_lost:
            _lost.append(file)
        elif file is not None and file.lockfile is not None:
            file.lockfile.close()  # and so unlocks it: fcntl(2)
        self._own.close()
        for key in self._keys:
            _owned.pop(key, None)
        self._is_released = True

    @property
    def _is_lost(self) -> bool:
        return not self._is_released and not self._own.intact

    def _list(self, status: os.stat_result) -> None:
        """Have it in the list of what this process has."""
        key = (self._generation, status.st_dev, status.st_ino)
        mine = ref(self)
        found = _owned.setdefault(key, mine)
        if found() not in (self, None):
            gc.collect()  # it may be of an object that an exception ended while it was opened
        owner = found()
        if owner is None or owner._is_lost:
            owner, _owned[key] = self, mine  # its locks went with its descriptors
        if owner is not self:
            text = f"the {self._what} {self._path} belongs to this process already"
            raise BusyError(text, holder=f"process {os.getpid()}")
        self._keys.append(key)

    def _lock_directory(self) -> None:
        with own_errors(self._path, "locking the directory"):
            try:
                fcntl.flock(self._own.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found = open_holder(self._own.fd)
            else:
                return
        raise BusyError(f"the {self._what} {self._path} belongs to {found or 'another process'}", holder=found)
