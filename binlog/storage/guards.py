"""The guard of what a process has open, with our errors: see native/guard.c."""

from __future__ import annotations

from binlog.errors import BinlogError, PoisonedError, StateError
from binlog.storage.native import Guard

_HARMLESS = (BinlogError, ValueError, TypeError)


def new_guard(what: str) -> Guard:
    """Make the guard of something, which errors name like this: "the journal PATH".

    A `change` may end with one of our own errors, ValueError or TypeError: a call that raises them has changed nothing,
    unless it is a PoisonedError.
    """
    return Guard(what, PoisonedError, StateError, _HARMLESS)
