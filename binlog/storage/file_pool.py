"""A pool of a directory's files, of which few are open at a time.

Invariants:
- A descriptor in use is never closed.  Its user has a reference to the object that closes it when it is freed.  There
  is no count of users, which an exception of a signal handler could make wrong.
- A file that is opened again must have the device and inode of the first time.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict

from binlog.errors import AccessError, GoneError, NotFoundError
from binlog.storage.descriptors import Identity, identity_of
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.failures import own_errors
from binlog.storage.handle import new_guard
from binlog.storage.native import Guard

# Of the 1024 descriptors that a process may have open by default.
_OPEN_MAX = 128


class FilePool:
    """The pool: it keeps the files that were used last open.

    guard, change: guard all changes of any of the files.
    """

    def __init__(self, directory: Directory, guard: Guard) -> None:
        self.directory = directory
        self.guard = guard
        self.change = guard.change()
        # In the order of their last use.  Each step on it is one call of C, so it needs no lock.
        self._open: OrderedDict[PooledFile, OpenFile] = OrderedDict()

    @classmethod
    def of(cls, folder: str | os.PathLike[str]) -> FilePool:
        """Return the pool of a folder that no other object uses.  Raises: NotFoundError; AccessError."""
        path = os.path.abspath(folder)
        return cls(Directory(path), new_guard(f"the files in {path}"))

    def open(self, file: PooledFile) -> OpenFile:
        """Return a file, opened if it is closed.  Raises: as `PooledFile.open`."""
        found = self._open.pop(file, None) or file.open_again()
        self._open[file] = found
        if len(self._open) > _OPEN_MAX:
            self._open.popitem(last=False)
        return found

    def close(self) -> None:
        """Close all files that are not in use."""
        self._open.clear()

    def forget(self, file: PooledFile) -> None:
        """Close a file, or let its last user close it."""
        self._open.pop(file, None)


class PooledFile:
    """An existing file of a pool."""

    __slots__ = ("_files", "_identity", "_name", "path")

    def __init__(self, files: FilePool, name: str) -> None:
        """Raises: NotFoundError; AccessError."""
        self.path = files.directory.file_path(name)
        self._files = files
        self._name = name
        self._identity: Identity | None = None
        self.open()

    def open(self) -> OpenFile:
        """Return the file, opened if it is closed.  It stays open at least as long as the returned object.

        Raises: GoneError if the name now belongs to another file, or to none; AccessError.
        """
        return self._files.open(self)

    def open_again(self) -> OpenFile:
        """Open the file with a new descriptor.  Raises: as `open`."""
        try:
            opened = OpenFile(self._files.directory, self._name, writable=True)
        except NotFoundError as error:
            if self._identity is None:
                raise
            raise GoneError(f"{self.path} was removed") from error
        identity = identity_of(opened.fd)
        if self._identity not in (None, identity):
            raise self._replaced()
        self._identity = identity
        return opened

    def check(self) -> None:
        """Raise GoneError if the path no longer names the file, so that writes to it would be lost."""
        try:
            with own_errors(self.path, "reading its status"):
                status = os.lstat(self.path)
        except AccessError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise GoneError(f"{self.path} was moved or removed, or its folder was") from error
            raise
        if (status.st_dev, status.st_ino) != self._identity:
            raise self._replaced()

    def _replaced(self) -> GoneError:
        return GoneError(f"{self.path} is another file now; the one that was opened was moved or removed")

    def close(self) -> None:
        """Close the file, or let its last user close it."""
        self._files.forget(self)
