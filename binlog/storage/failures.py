"""The errors of this package for the errnos of system calls."""

from __future__ import annotations

import errno
import os

from binlog.errors import AccessError, BinlogError, FullError, PoisonedError

NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def failure(number: int, path: str, doing: str) -> BinlogError:
    """Return the error for an errno of an operation on `path`.  doing: names the operation: "reading"."""
    if number in NO_SPACE:
        return FullError(f"{path}: {os.strerror(number)} while {doing}")
    return AccessError(f"{path}: {os.strerror(number)} while {doing}", errno=number, path=path)


def poisoned(number: int, path: str, operation: str) -> PoisonedError:
    """Return the error for an errno of a write or sync, with the OSError as its cause.  operation: "a sync"."""
    error = PoisonedError(f"{path}: {os.strerror(number)} in {operation}; reopen to recover")
    error.__cause__ = OSError(number, os.strerror(number), path)
    return error


def write_failure(number: int, path: str) -> BinlogError:
    """Return the error for an errno of a write: a full disk does not poison."""
    return failure(number, path, "writing") if number in NO_SPACE else poisoned(number, path, "a write")


class _OwnErrors:
    """The context manager of `own_errors`.

    It is a class, because entering one takes a third of the time of a generator, and opening a log enters dozens.
    """

    __slots__ = ("_doing", "_path")

    def __init__(self, path: str, doing: str) -> None:
        self._path = path
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, BinlogError):
            raise failure(error.errno or 0, self._path, self._doing) from error


def own_errors(path: str, doing: str) -> _OwnErrors:
    """Raise an OSError of the block as a BinlogError.  path, doing: as for `failure`."""
    return _OwnErrors(path, doing)
