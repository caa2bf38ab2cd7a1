"""Every error that binlog raises, as one tree.

An error is named by what its caller can do about it.  Wrong arguments are the
built-in TypeError and ValueError; a wait that ran out of time returns and
raises nothing.
"""

from __future__ import annotations

import os

__all__ = [
    "AccessError",
    "BinlogError",
    "BusyError",
    "ClosedError",
    "CorruptError",
    "FullError",
    "GoneError",
    "InternalError",
    "NotFoundError",
    "PoisonedError",
    "StateError",
    "TimedOutError",
    "UnknownOutcomeError",
    "VersionError",
]


class BinlogError(Exception):
    """The root: every error of ours is one of these."""


class ClosedError(BinlogError):
    """You closed this handle; make a new one."""


class BusyError(BinlogError):
    """Someone else has it: wait, or try again.

    holder: a text that names who has it, or None where that cannot be known.
    """

    def __init__(self, message: str, *, holder: str | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class FullError(BinlogError):
    """A limit, or the disk, is reached.  Nothing was written, nothing is lost.

    limit: the limit in bytes, or None for a full disk.  size: the bytes asked for.
    """

    def __init__(self, message: str, *, limit: int | None = None, size: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.size = size


class AccessError(BinlogError, OSError):
    """No permission, no such directory, or not a directory.  Also an OSError, with its errno.

    run_as: the user who may do it, if another user may.
    """

    def __init__(
        self, message: str, *, errno: int | None = None, path: str | None = None, run_as: str | None = None
    ) -> None:
        # OSError fills errno, strerror and filename only from two or more positional arguments.
        if errno is None:
            super().__init__(message)
        else:
            super().__init__(errno, message, path)
        self._message = message
        self.run_as = run_as

    def __str__(self) -> str:
        return self._message


class StateError(BinlogError, RuntimeError):
    """Not now: the object is not in a state that allows this."""


class NotFoundError(BinlogError, KeyError):
    """No such id, queue, key or file."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; a message should read as one.
        return Exception.__str__(self)


class GoneError(BinlogError):
    """It was there, and was removed (by retention, say)."""


class TimedOutError(BinlogError, TimeoutError):
    """An operation that ran out of time and may still take effect."""


class UnknownOutcomeError(BinlogError):
    """The record may or may not be in the log: look before you append it again."""


class CorruptError(BinlogError):
    """Bytes contradict the format.  Everything before the offset stays readable.

    path: the file.  offset: where in it, in bytes.  rule: a short name of what was broken.
    """

    def __init__(self, path: str | os.PathLike[str], offset: int, rule: str, text: str) -> None:
        super().__init__(f"{os.fspath(path)} at offset {offset}: {text} [{rule}]")
        self.path = os.fspath(path)
        self.offset = offset
        self.rule = rule
        self.text = text


class VersionError(BinlogError):
    """Valid, but of a version that this program does not know.

    found: the version met.  known: the versions this program reads.
    """

    def __init__(self, message: str, *, found: int, known: tuple[int, ...]) -> None:
        super().__init__(message)
        self.found = found
        self.known = known


class PoisonedError(BinlogError):
    """A write or a sync failed, so what the disk holds is not known; reopen to recover."""


class InternalError(BinlogError):
    """A mistake of ours; please report it."""
