"""Where a reader begins."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from binlog.format.ref import COUNT_MAX, Ref

_NS = 10**9


class Start(enum.Enum):
    """Where a reader begins when not at a record that it names."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, slots=True)
class Sequence:
    """The record with a sequence number: `number` records of the log came before it, since its first file.

    It may be the next one, which is not there yet.
    """

    number: int

    def __post_init__(self) -> None:
        if not isinstance(self.number, int):
            raise TypeError(f"a sequence number is a whole number, not {type(self.number).__name__}")
        if not 0 <= self.number <= COUNT_MAX:
            raise ValueError(f"out of range for a sequence number: {self.number}")


@dataclass(frozen=True, slots=True)
class Since:
    """What was appended at a time or later: none of it is left out, and some that is older may come before it.

    time: a datetime with a zone, or seconds since 1970 UTC, as time.time() gives them; or a timedelta before now.
    The index tells times, of a commit or of 64 KiB of records together; without one they are a file's.
    """

    time: datetime | float | timedelta

    def __post_init__(self) -> None:
        if isinstance(self.time, timedelta):
            object.__setattr__(self, "time", time.time() - self.time.total_seconds())
        if isinstance(self.time, datetime):
            if self.time.tzinfo is None or self.time.utcoffset() is None:
                raise ValueError(f"a time without a zone: {self.time}")
        elif not isinstance(self.time, int | float) or isinstance(self.time, bool):
            kinds = "a datetime with a zone, a timedelta before now, or seconds since 1970"
            raise TypeError(f"a time is {kinds}, not {type(self.time).__name__}")
        elif self.time != self.time or abs(self.time) > COUNT_MAX // _NS:
            raise ValueError(f"out of range for a time: {self.time}")

    @property
    def time_ns(self) -> int:
        """Nanoseconds since 1970 UTC, 0 for what is before that."""
        assert not isinstance(self.time, timedelta)
        if isinstance(self.time, datetime):
            whole = self.time.replace(microsecond=0).timestamp()
            return max(int(whole) * _NS + self.time.microsecond * 1000, 0)
        return max(int(self.time * _NS), 0)


StartPosition = Ref | Sequence | Since | Start
"""What a reader may begin at."""


# A union of them would be made again at each use.
_PLACES = (Ref, Sequence, Since, Start)


def place_from(start: object) -> StartPosition:
    """Return the place to begin at, also of the text of a ref, and of the words 'beginning' and 'end'.

    Raises: TypeError, ValueError.
    """
    if isinstance(start, str):
        words = {each.value: each for each in Start}
        try:
            return words.get(start.lower()) or Ref.parse(start)
        except ValueError:
            raise ValueError(f"start is a ref such as '1:256', 'beginning' or 'end', not {start!r}") from None
    if not isinstance(start, _PLACES):
        raise TypeError(f"start is a Ref or its text, a Sequence, a Since or a Start, not {type(start).__name__}")
    if isinstance(start, Ref):
        start.validate()
    return start
