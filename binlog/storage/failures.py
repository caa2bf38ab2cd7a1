"""From an errno to our own errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def own_errors(path: str, doing: str) -> Iterator[None]:
    """Raises an OSError of the body as one of ours."""
    try:
        yield
    except BinlogError:
        raise
    except OSError as error:
        raise failure(error.errno or 0, path, doing) from error
