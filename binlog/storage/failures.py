"""From an errno to our own errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from binlog.errors import AccessError, BinlogError, FullError

NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def failure(number: int, path: str, doing: str) -> BinlogError:
    """The error to raise for the errno `number`, met while `doing` something to `path`."""
    if number in NO_SPACE:
        return FullError(f"{path}: {os.strerror(number)} while {doing}")
    return AccessError(f"{path}: {os.strerror(number)} while {doing}", errno=number, path=path)


@contextmanager
def own_errors(path: str, doing: str) -> Iterator[None]:
    """Raises an OSError of the body as one of ours."""
    try:
        yield
    except BinlogError:
        raise
    except OSError as error:
        raise failure(error.errno or 0, path, doing) from error
