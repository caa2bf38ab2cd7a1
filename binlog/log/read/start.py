"""Start, Sequence and Since: where a reader begins, and the search for that record."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from binlog.errors import GoneError
from binlog.format.record import COUNT_MAX, Ref
from binlog.log.index.index import believed_ns
from binlog.log.read.file_reader import FileReader
from binlog.log.read.position import FilePosition

_NS = 10**9


class Start(enum.Enum):
    """The beginning or the end of the log, as a reader's start."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, slots=True)
class Sequence:
    """The record with a sequence number, as a reader's start: `number` records of the log precede it.

    It may be the next record, which is not appended yet.
    """

    number: int

    def __post_init__(self) -> None:
        if not isinstance(self.number, int):
            raise TypeError(f"a sequence number is a whole number, not {type(self.number).__name__}")
        if not 0 <= self.number <= COUNT_MAX:
            raise ValueError(f"out of range for a sequence number: {self.number}")


@dataclass(frozen=True, slots=True)
class Since:
    """The records appended at a time or later, as a reader's start: none is left out, but some older ones may precede.

    time: a datetime with a zone, or seconds since 1970 UTC, as time.time() returns them; or a timedelta before now.
    Times are from the index: of a commit or of 64 KiB of records together; without an index they are a file's.
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
        """Nanoseconds since 1970 UTC, 0 for earlier times."""
        assert not isinstance(self.time, timedelta)
        if isinstance(self.time, datetime):
            whole = self.time.replace(microsecond=0).timestamp()
            return max(int(whole) * _NS + self.time.microsecond * 1000, 0)
        return max(int(self.time * _NS), 0)


StartPosition = Ref | Sequence | Since | Start
"""Where a reader may begin."""


# The types of StartPosition, because isinstance would make the union again on each use.
_START_TYPES = (Ref, Sequence, Since, Start)


def parse_start(start: object) -> StartPosition:
    """Return a reader's start; a ref may be given as text, a Start as 'beginning' or 'end'.

    Raises: TypeError, ValueError.
    """
    if isinstance(start, str):
        words = {each.value: each for each in Start}
        try:
            return words.get(start.lower()) or Ref.parse(start)
        except ValueError:
            raise ValueError(f"start is a ref such as '1:256', 'beginning' or 'end', not {start!r}") from None
    if not isinstance(start, _START_TYPES):
        raise TypeError(f"start is a Ref or its text, a Sequence, a Since or a Start, not {type(start).__name__}")
    if isinstance(start, Ref):
        start.validate()
    return start


_Open = Callable[[int], FileReader]


def find_sequence(start: Sequence, numbers: list[int], open_file: _Open) -> FilePosition:
    """Return the position of the record with a sequence number.  numbers: of the files in use, in order.

    Raises: ValueError if no record has the number; GoneError if it was removed; CorruptError.
    """
    foreign = 0
    for number in reversed(numbers):
        file = open_file(number)
        kept = False
        try:
            header = file.header
            if header.is_native and header.first_sequence <= start.number:
                end = header.first_sequence + header.record_count
                if start.number > end or (start.number == end and foreign):
                    text = f"after them are those of another program in file {foreign}" if foreign else "so far"
                    raise ValueError(f"sequence {start.number}: the log has {end} records with a number, {text}")
                place = FilePosition(file, file.offset_of(start.number), start.number)
                kept = True
                return place
            foreign = foreign if header.is_native else number
        finally:
            if not kept:
                file.close()
    if foreign == numbers[0]:
        raise ValueError(f"sequence {start.number}: another program made file {foreign}, and gave no numbers")
    raise GoneError(f"sequence {start.number}: the log now starts with file {numbers[0]}, which has higher numbers")


def find_time(start: Since, numbers: list[int], open_file: _Open) -> FilePosition:
    """Return a position before which nothing was appended at that time or later.  numbers: as for `find_sequence`.

    Raises: CorruptError.
    """
    time_ns = start.time_ns
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        file = open_file(number)
        kept = False
        try:
            if following is None or _last_time_ns(file, following, open_file) >= time_ns:
                found = file.since(time_ns)
                place = FilePosition(file, found.offset, found.sequence if file.header.is_native else None)
                kept = True
                return place
        finally:
            if not kept:
                file.close()
    raise AssertionError("a log has files")


def _last_time_ns(file: FileReader, following: int, open_file: _Open) -> int:
    """Return a time at which the file had all of its records.

    The next file was made after the last record, at the time of its own clock.  So the later of both times is right,
    though a clock was set back between them, or earlier times were written into the index.
    """
    header, now_ns = file.header, time.time_ns()
    made_ns = believed_ns(header.created_ns, now_ns)
    known = file.last_time_ns()
    if known is None or known < made_ns:
        known = file.modified_ns  # the index has a time before the file was made
    after = open_file(following)
    try:
        next_made_ns = believed_ns(after.header.created_ns, now_ns)
    finally:
        after.close()
    if known > now_ns and next_made_ns > made_ns:
        return next_made_ns  # a clock was ahead
    return max(known, next_made_ns)
