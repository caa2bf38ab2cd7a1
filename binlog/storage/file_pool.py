"""Files of a directory that are used now and then, of which few are open at once.

Invariants
- A descriptor in use is never closed: whoever uses it has the object that closes it when it goes.  So nothing is
  counted that an exception of a signal handler could get wrong.
- A file that is opened again must be the one that was opened first, by device and inode.
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

# Of a process's descriptors, of which it has 1024 unless told otherwise.
_OPEN_MAX = 128


class FilePool:
    """The files of a directory that are open.  guard, change: of all that changes any of them."""

    def __init__(self, directory: Directory, guard: Guard) -> None:
        self.directory = directory
        self.guard = guard
        self.change = guard.change()
        # The one used last is the last one.  Each step on it is one call of C, so no lock is needed.
        self._open: OrderedDict[PooledFile, OpenFile] = OrderedDict()

    @classmethod
    def of(cls, folder: str | os.PathLike[str]) -> FilePool:
        """Those of a folder that is nobody else's.  Raises: NotFoundError; AccessError."""
        path = os.path.abspath(folder)
        return cls(Directory(path), new_guard(f"the files in {path}"))

    def open(self, file: PooledFile) -> OpenFile:
        """Return it open, until nobody has what is returned.  Raises: as `PooledFile.open`."""
        found = self._open.pop(file, None) or file.open_again()
        self._open[file] = found
        if len(self._open) > _OPEN_MAX:
            self._open.popitem(last=False)
        return found

    def close(self) -> None:
        """Keep none open that nobody uses."""
        self._open.clear()

    def forget(self, file: PooledFile) -> None:
        """Keep it open no longer than somebody uses it."""
        self._open.pop(file, None)


class PooledFile:
    """A file that is there, by its name in the directory."""

    __slots__ = ("_files", "_identity", "_name", "path")

    def __init__(self, files: FilePool, name: str) -> None:
        """Raises: NotFoundError; AccessError."""
        self.path = files.directory.file_path(name)
        self._files = files
        self._name = name
        self._identity: Identity | None = None
        self.open()

    def open(self) -> OpenFile:
        """Return it open.  Raises: GoneError if its name leads to another file than at first, or to none; AccessError.

        It stays open until nobody has what is returned.
        """
        return self._files.open(self)

    def open_again(self) -> OpenFile:
        """As `open`, and in no case one that is open already."""
        try:
            opened = OpenFile(self._files.directory, self._name, writable=True)
        except NotFoundError as error:
            if self._identity is None:
                raise
            raise GoneError(f"{self.path} was removed") from error
        identity = identity_of(opened.fd)
        if self._identity not in (None, identity):
            raise self._another()
        self._identity = identity
        return opened

    def check(self) -> None:
        """Raise GoneError if the path no longer leads to the file, so that what is written to it would be lost."""
        try:
            with own_errors(self.path, "asking what it is"):
                status = os.lstat(self.path)
        except AccessError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise GoneError(f"{self.path} was moved or removed, or its folder was") from error
            raise
        if (status.st_dev, status.st_ino) != self._identity:
            raise self._another()

    def _another(self) -> GoneError:
        return GoneError(f"{self.path} is another file now; the one that was opened was moved or removed")

    def close(self) -> None:
        """Close it, once nobody uses it any more."""
        self._files.forget(self)
