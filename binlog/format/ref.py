"""A ref: where a record lies in a log."""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r"([0-9]{1,10}):([0-9]{1,19})", re.ASCII)
_NUMBER_MAX = 2**32 - 1
OFFSET_MAX = 2**63 - 1
COUNT_MAX = 2**63 - 1


class Ref(NamedTuple):
    """A place in a log: the number of a file, and bytes from that file's start.

    Ordered as the log is; hashable; written `1:256`.
    """

    number: int
    offset: int

    def __str__(self) -> str:
        return f"{self.number}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Ref:
        """Read what `str()` wrote.

        Raises: ValueError where the text is not a number from 1, a colon and an offset.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a ref, which is written as 1:256: {text!r}")
        ref = cls(int(match[1]), int(match[2]))
        ref.validate()
        return ref

    def validate(self) -> None:
        """Raise TypeError or ValueError where this cannot be a place in any log."""
        if not isinstance(self.number, int) or not isinstance(self.offset, int):
            raise TypeError(f"a ref is two whole numbers, not {self!r}")
        if not 1 <= self.number <= _NUMBER_MAX or not 0 <= self.offset <= OFFSET_MAX:
            raise ValueError(f"out of range for a ref: {self}")
