"""Keeps a bounded number of descriptors open for files that are used now and then.

Invariants: a descriptor in use is never closed; one that is opened again must lead to the same file as the first time,
by device and inode, whatever its path leads to by then.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType

from binlog.errors import AccessError, GoneError, NotFoundError
from binlog.storage.failures import own_errors

# Of a process's descriptors, of which it has 1024 unless told otherwise.
_OPEN_MAX = 128


class PooledFile:
    """A file or directory at `path`, whose descriptor is open at least within a `with` statement.

    open_: opens it; called again whenever the descriptor was closed meanwhile.
    Raises: as `open_`; GoneError if the path leads to another file than the first time, or to none.
    """

    __slots__ = ("_identity", "_open", "_pool", "closed", "fd", "kept", "path", "uses")

    def __init__(self, path: str, open_: Callable[[], int]) -> None:
        self.path = path
        self.fd = -1
        self.uses = 0
        self.kept = self.closed = False
        self._open = open_
        self._identity: tuple[int, int] | None = None
        self._pool = _pool
        with self:
            pass

    def __enter__(self) -> int:
        return self._pool.take(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.give(self)

    def keep(self) -> None:
        """Keep it open until `close`: its name is about to go."""
        with self:
            self.kept = True

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
            raise GoneError(f"{self.path} is another file now; the one that was opened was moved or removed")

    def close(self) -> None:
        """Close the descriptor, once nobody uses it any more."""
        self._pool.forget(self)

    def open_again(self) -> int:
        """Return a new descriptor of the same file."""
        try:
            fd = self._open()
        except NotFoundError as error:
            if self._identity is None:
                raise
            raise GoneError(f"{self.path} was removed, or its folder moved") from error
        with own_errors(self.path, "asking what it is"):
            status = os.fstat(fd)
        identity = (status.st_dev, status.st_ino)
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            os.close(fd)
            raise GoneError(f"{self.path} is another file now; the one that was opened was moved or removed")
        return fd


class _OpenFiles:
    """All pooled files of the process that are open, the one used last at the end."""

    def __init__(self, open_max: int) -> None:
        self._open_max = open_max
        self._open: OrderedDict[PooledFile, object] = OrderedDict()
        self._mutex = threading.Lock()

    def take(self, file: PooledFile) -> int:
        """Return the file's descriptor, which stays open until `give`."""
        with self._mutex:
            if file.fd >= 0:
                file.uses += 1
                self._open.move_to_end(file)
                return file.fd
        fd = file.open_again()
        with self._mutex:
            if file.fd >= 0:
                os.close(fd)  # another thread was quicker
            else:
                file.fd = fd
                self._open[file] = None
                self._close_some()
            file.uses += 1
            return file.fd

    def give(self, file: PooledFile) -> None:
        """Have the descriptor be closed when others need one."""
        with self._mutex:
            file.uses -= 1
            if file.closed and file.uses == 0:
                self._close(file)

    def forget(self, file: PooledFile) -> None:
        """Close the descriptor, or have the last one who uses it do that."""
        with self._mutex:
            file.closed = True
            if file.uses == 0:
                self._close(file)

    def _close_some(self) -> None:
        unused = [file for file in self._open if file.uses == 0 and not file.kept]
        for file in unused[: max(len(self._open) - self._open_max, 0)]:
            self._close(file)

    def _close(self, file: PooledFile) -> None:
        if self._open.pop(file, self) is None:
            os.close(file.fd)
            file.fd = -1

    def renew_lock(self) -> None:
        """In a forked child: a thread that is not there may have held it."""
        self._mutex = threading.Lock()


_pool = _OpenFiles(_OPEN_MAX)
os.register_at_fork(after_in_child=_pool.renew_lock)


def pooled_directory(path: str) -> PooledFile:
    """Return a directory whose descriptor is in the pool.  Raises: AccessError, NotFoundError."""

    def open_() -> int:
        with own_errors(path, "opening the directory"):
            try:
                return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError as error:
                raise NotFoundError(f"{path}: there is no such directory") from error

    return PooledFile(path, open_)
