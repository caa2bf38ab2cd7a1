"""Something that is wrong with what lies on the disk, as every engine's check tells it."""

from __future__ import annotations

from typing import NamedTuple

from binlog.errors import BinlogError, CorruptError, VersionError


class Problem(NamedTuple):
    """One thing that is wrong: the file, where in it, a short name of the rule that is broken, and a sentence.

    end: where what is wrong ends in the file, where that is known.
    """

    path: str
    offset: int
    rule: str
    text: str
    end: int | None = None

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.text} [{self.rule}]"


def problem_of(error: BinlogError, path: str) -> Problem:
    """What an error tells that was met while `path` was looked at."""
    if isinstance(error, CorruptError):
        return Problem(error.path, error.offset, error.rule, error.text)
    return Problem(path, 0, "version" if isinstance(error, VersionError) else "unreadable", str(error))
