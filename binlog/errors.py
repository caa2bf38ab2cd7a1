"""The tree of all errors that binlog raises.

Each class means one reaction of the caller.  Wrong arguments raise the built-in TypeError and ValueError.  A wait
that times out returns and raises nothing.
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
    "LeaseLostError",
    "NotFoundError",
    "PoisonedError",
    "SealError",
    "StateError",
    "TimedOutError",
    "UnknownOutcomeError",
    "VersionError",
]


class BinlogError(Exception):
    """The base class of all errors of binlog."""


class ClosedError(BinlogError):
    """The handle is closed; open a new one."""


class BusyError(BinlogError):
    """Another process or object holds it: wait, or retry.

    holder: a text that names the holder, or None if it is not known.
    """

    def __init__(self, message: str, *, holder: str | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class FullError(BinlogError):
    """A limit is reached, or the disk is full.  Nothing was written, and nothing is lost.

    limit: the limit in bytes, or None for a full disk.  size: the bytes requested.
    """

    def __init__(self, message: str, *, limit: int | None = None, size: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.size = size


class AccessError(BinlogError, OSError):
    """No permission, no such directory, or not a directory.  It is also an OSError, with its errno.

    run_as: the name of a user with the permission, if one is known.
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
    """The object is in a state that does not allow this call: started twice, not loaded."""


class NotFoundError(BinlogError, KeyError):
    """No such id, queue, key or file."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; a message should read as one.
        return Exception.__str__(self)


class GoneError(BinlogError):
    """It existed and was removed, for example by retention."""


class LeaseLostError(BinlogError):
    """Another consumer has the item now, or it is done: drop it."""


class TimedOutError(BinlogError, TimeoutError):
    """An operation timed out, and may still take effect."""


class UnknownOutcomeError(BinlogError):
    """The record may or may not be in the log: read the log before you append it again."""


class CorruptError(BinlogError):
    """Bytes contradict the format.  Everything before the offset stays readable.

    path: of the file.  offset: of the damage, in bytes.  rule: a short name of the broken rule.
    """

    def __init__(self, path: str | os.PathLike[str], offset: int, rule: str, text: str) -> None:
        super().__init__(f"{os.fspath(path)} at offset {offset}: {text} [{rule}]")
        self.path = os.fspath(path)
        self.offset = offset
        self.rule = rule
        self.text = text


class VersionError(BinlogError):
    """The file is valid, but of a version that this program does not know.

    found: the version of the file.  known: the versions that this program reads.
    """

    def __init__(self, message: str, *, found: int, known: tuple[int, ...]) -> None:
        super().__init__(message)
        self.found = found
        self.known = known


class PoisonedError(BinlogError):
    """A write or a sync failed, or a change was interrupted, so the disk's contents are unknown; reopen to recover.

    __cause__: the failure.
    """


class SealError(BinlogError):
    """A signed note, key, proof or policy is malformed, or does not fit what it is to prove: do not trust it."""


class InternalError(BinlogError):
    """A bug in binlog; please report it."""
