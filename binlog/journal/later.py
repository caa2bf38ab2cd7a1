"""Work of a journal that can be done later as well: what keeps it from being done now, and no longer, is no failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from binlog.errors import BinlogError, InternalError, PoisonedError


def is_for_ever(error: BaseException) -> bool:
    """Whether nothing may be appended behind it.

    A failed write or sync is so.  A full disk is not, nor a lack of descriptors, nor what could not be read: that ended
    before anything was changed, or where it can be begun again.
    """
    return not isinstance(error, BinlogError) or isinstance(error, (PoisonedError, InternalError))


@contextmanager
def ignored_until_later() -> Iterator[None]:
    """Goes on where the body raises what may pass: it is done the next time.  Raises: what is for ever."""
    try:
        yield
    except BinlogError as error:
        if is_for_ever(error):
            raise
