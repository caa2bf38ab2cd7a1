"""From an errno to our own errors."""

from __future__ import annotations

import errno
import os

from binlog.errors import AccessError, BinlogError, FullError, PoisonedError

NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def failure(number: int, path: str, doing: str) -> BinlogError:
    """The error to raise for the errno `number`, met while `doing` something to `path`."""
    if number in NO_SPACE:
        return FullError(f"{path}: {os.strerror(number)} while {doing}")
    return AccessError(f"{path}: {os.strerror(number)} while {doing}", errno=number, path=path)


def poisoned(number: int, path: str, what: str) -> PoisonedError:
    """The error for a write or sync that failed with the errno `number`; its cause is the OSError."""
    error = PoisonedError(f"{path}: {os.strerror(number)} in {what}; nothing more is appended")
    error.__cause__ = OSError(number, os.strerror(number), path)
    return error


def write_failure(number: int, path: str) -> BinlogError:
    """The error for a write that failed with the errno `number`."""
    return failure(number, path, "writing") if number in NO_SPACE else poisoned(number, path, "a write")


class _OwnErrors:
    """A class, for entering one takes a third of the time that a generator's takes, and opening a log enters dozens."""

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
    """Raises an OSError of the body as one of ours."""
    return _OwnErrors(path, doing)
