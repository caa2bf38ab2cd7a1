"""UnfinishedFile: a file that gets its name once it is complete and synced."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from binlog.errors import AccessError, BusyError
from binlog.storage.failures import own_errors, poisoned

_MODE = 0o640


@contextmanager
def unfinished_file(path: str) -> Iterator[tuple[int, str]]:
    """Yield a descriptor and the path of an empty file, which gets the name `path` at the end of the block, durably.

    It replaces a file of that name.  Until then it is `.NAME.partial`, in the same directory.  If the block raises, it
    is removed; if the process is killed, the next one uses it again.
    Raises: BusyError if another process writes it; AccessError, FullError.
    """
    folder, name = os.path.split(os.path.abspath(path))
    partial = os.path.join(folder, f".{name}.partial")
    if os.path.isdir(path) or not name:
        raise AccessError(f"{path} is a directory", errno=errno.EISDIR, path=path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise AccessError(f"{path} is a pipe or a device, which a file cannot replace", errno=errno.EINVAL, path=path)
    with own_errors(partial, "making the file"):
        fd = _locked(partial)
    try:
        try:
            yield fd, partial
            with own_errors(partial, "naming the file"):
                _sync(fd, partial)
                os.rename(partial, path)
                _sync_folder(folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise
    finally:
        os.close(fd)


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Write all of the bytes at an offset.  Raises: OSError."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def _locked(partial: str) -> int:
    """Open the file, alone and empty."""
    while True:
        fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BusyError(f"{partial} is locked: another process writes this file") from None
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.stat(partial, follow_symlinks=False)):
                    os.ftruncate(fd, 0)
                    return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # the process that had it has just finished


def _sync(fd: int, path: str) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        raise poisoned(error.errno or 0, path, "a sync") from error


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(fd, folder)
    finally:
        os.close(fd)
