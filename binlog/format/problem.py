"""Problem: a finding of an engine's check."""

from __future__ import annotations

from typing import NamedTuple

from binlog.errors import BinlogError, CorruptError, VersionError


class Problem(NamedTuple):
    """Something that is wrong on the disk: the file, the offset in it, the name of the broken rule, and a sentence.

    end: the end of the damage in the file, if it is known.
    """

    path: str
    offset: int
    rule: str
    text: str
    end: int | None = None

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.text} [{self.rule}]"


def problem_of(error: BinlogError, path: str) -> Problem:
    """Return the problem for an error that was raised while `path` was checked."""
    if isinstance(error, CorruptError):
        return Problem(error.path, error.offset, error.rule, error.text)
    return Problem(path, 0, "version" if isinstance(error, VersionError) else "unreadable", str(error))
