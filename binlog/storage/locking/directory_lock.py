"""The lock of an engine's directory: one process owns it, and one object in that process.

Facts relied on:
- flock(2): locks the directory itself, independent of its name and contents.  The lock is freed when the last
  descriptor of the open file description is closed, so a forked child closes its own at once (native/shared/fork.c).
- fcntl(2): a classic lock, which `fasteners` takes, belongs to a process.  It does not exclude a second object of the
  same process, and is freed when any part of the process closes any descriptor of the file.

So a lock has three parts.  The lock on the directory survives if the directory is moved, or its lock file removed or
replaced.  The lock on the lock file also excludes a directory with hard links to another's files.  A registry excludes
other objects of this process; it has weak references only, so a lock is freed with its object.

`hold_lock_file` takes the lock file alone, for long operations of which one may run at a time.
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
from binlog.storage.files import truncate
from binlog.storage.locking.locks import holder, is_locked, open_holder
from binlog.storage.native import Guard, fork_generation


@contextmanager
def hold_lock_file(directory: Directory, name: str, activity: str, access: FileAccess | None = None) -> Iterator[None]:
    """Hold a lock file for the length of a block, without waiting for it.

    activity: of the holder, for the error: "repairs the log".  access: as for `take_lock_file`.
    Raises: BusyError; AccessError.
    """
    lock = take_lock_file(directory, name, access)
    if lock is None:
        raise BusyError(f"{directory.file_path(name)} is locked: another process {activity}", holder=None)
    try:
        yield
    finally:
        lock.release()


def take_lock_file(
    directory: Directory, name: str, access: FileAccess | None = None
) -> fasteners.InterProcessLock | None:
    """Lock a file; return None if another process has it locked.  The file is made if needed, and stays.

    access: as for `Directory.create`, so that other users may lock it too.
    Raises: AccessError.
    """
    path = directory.file_path(name)
    if os.path.islink(path):
        raise AccessError(f"{path} is a symbolic link", errno=errno.ELOOP, path=path)
    if not directory.has(name):
        try:
            directory.close_file(directory.create(name, access))
        except AccessError as error:
            if error.errno != errno.EEXIST:  # another process has just made it
                raise
    lock = fasteners.InterProcessLock(path)
    with own_errors(path, "locking"):
        return lock if lock.acquire(blocking=False) else None


_Key = tuple[int, int, int]

# By fork generation, device and inode.  One `setdefault` checks and registers, so there is no lock that a child could
# find held, or for which a signal handler could wait.
_owned: dict[_Key, ReferenceType[DirectoryLock]] = {}
# Lock files whose descriptors the program closed.  They are never closed, because their numbers may name other files.
_lost: list[fasteners.InterProcessLock] = []


def find_owner(directory: Directory, lock_name: str) -> tuple[bool, str | None]:
    """Return whether a process owns the directory, and a text that names it or None."""
    status = os.fstat(directory.fd)
    owner = _owned.get((fork_generation(), status.st_dev, status.st_ino))
    if owner is not None and owner() is not None:
        # Do not open the lock file: closing that descriptor would free this process's lock on it (fcntl(2)).
        return True, f"process {os.getpid()}"
    with suppress(AccessError, NotFoundError), directory.opened(lock_name) as fd:
        return (True, holder(fd)) if is_locked(fd) else (False, None)
    return False, None  # the file does not exist, or may not be read


class DirectoryLock:
    """The lock of a directory, held by one object of one process."""

    def __init__(self, directory: Directory, lock_name: str, kind: str) -> None:
        """Acquire the lock, without waiting for it.

        lock_name: of the lock file in the directory, which is made and stays.
        kind: names the owned object in errors: "journal".
        Raises: BusyError, with the holder if it can be found; AccessError, also if the directory was moved meanwhile.
        """
        self._generation = fork_generation()
        self._path, self._kind = directory.path, kind
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
        self._register(os.fstat(directory.fd))
        self._lock_directory()
        self._file = take_lock_file(directory, lock_name)
        if self._file is None:
            text = f"{directory.file_path(lock_name)} is locked: another process has the {self._kind}"
            raise BusyError(text, holder=None)
        with own_errors(path, "reading the status of the lock file"):
            self._register(os.stat(lock_name, dir_fd=directory.fd, follow_symlinks=False))
        with own_errors(path, "reading the status of the directory"):
            is_there = os.path.samestat(os.stat(path), os.fstat(directory.fd))
        if not is_there:
            raise AccessError(f"{path} was moved while it was opened", errno=errno.ESTALE, path=path)

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked child, so that the directory belongs to its parent."""
        return fork_generation() != self._generation

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child, or the program closed all its descriptors, as a daemon does.

        In the second case the lock is gone, and the numbers of the descriptors may name other files.
        """
        return self.is_forked or self._is_lost

    def bind(self, guard: Guard) -> None:
        """Make a guard refuse all entries as soon as the lock is `inherited`."""
        guard.bind(self._own.fd, *self._own.identity)

    def clear_file(self) -> None:
        """Empty the lock file, which another program may have written to.  Raises: AccessError."""
        # By the locked descriptor: closing another one would free the lock (fcntl(2)).
        assert self._file is not None
        truncate(self._file.lockfile.fileno(), 0, self._path)

    def release(self) -> None:
        """Free the lock.  Does nothing in a forked child, or if it is free."""
        if self._is_released or self.is_forked:
            return
        file = self._file
        if file is not None and self._is_lost:
            _lost.append(file)
        elif file is not None and file.lockfile is not None:
            file.lockfile.close()  # which also unlocks it (fcntl(2))
        self._own.close()
        for key in self._keys:
            _owned.pop(key, None)
        self._is_released = True

    @property
    def _is_lost(self) -> bool:
        return not self._is_released and not self._own.intact

    def _register(self, status: os.stat_result) -> None:
        """Add a file to the registry of this process.  Raises: BusyError if another object has it."""
        key = (self._generation, status.st_dev, status.st_ino)
        mine = ref(self)
        found = _owned.setdefault(key, mine)
        if found() not in (self, None):
            gc.collect()  # it may belong to an object whose opening an exception ended
        owner = found()
        if owner is None or owner._is_lost:
            owner, _owned[key] = self, mine  # its locks are gone with its descriptors
        if owner is not self:
            text = f"the {self._kind} {self._path} belongs to this process already"
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
        raise BusyError(f"the {self._kind} {self._path} belongs to {found or 'another process'}", holder=found)
