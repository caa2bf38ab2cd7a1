"""Finding where a reader begins that names a sequence number or a time."""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.errors import GoneError
from binlog.log.believed_times import believed_ns
from binlog.log.file_reader import FileReader
from binlog.log.place import FilePosition
from binlog.log.start import Sequence, Since

_Open = Callable[[int], FileReader]


def place_of_sequence(start: Sequence, numbers: list[int], open_file: _Open) -> FilePosition:
    """Where the record with a sequence number lies, or will.  numbers: of the files in use, in order.

    Raises: ValueError where there is none with that number; GoneError where it was removed; CorruptError.
    """
    foreign = 0
    for number in reversed(numbers):
        file = open_file(number)
        kept = False
        try:
            header = file.header
            if header.ours and header.first_sequence <= start.number:
                end = header.first_sequence + header.record_count
                if start.number > end or (start.number == end and foreign):
                    where = f"after them come those of another program in file {foreign}" if foreign else "so far"
                    raise ValueError(f"sequence {start.number}: the log has {end} records with a number, {where}")
                place = FilePosition(file, file.offset_of(start.number), start.number)
                kept = True
                return place
            foreign = foreign if header.ours else number
        finally:
            if not kept:
                file.close()
    if foreign == numbers[0]:
        raise ValueError(f"sequence {start.number}: another program made file {foreign}, and gave no numbers")
    raise GoneError(f"sequence {start.number}: the log now starts with file {numbers[0]}, which has higher numbers")


def place_since(start: Since, numbers: list[int], open_file: _Open) -> FilePosition:
    """A place before which nothing was appended at that time or later.  numbers: of the files in use, in order.

    Raises: CorruptError.
    """
    time_ns = start.time_ns
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        file = open_file(number)
        kept = False
        try:
            if following is None or _last_time_ns(file, following, open_file) >= time_ns:
                found = file.since(time_ns)
                place = FilePosition(file, found.offset, found.sequence if file.header.ours else None)
                kept = True
                return place
        finally:
            if not kept:
                file.close()
    raise AssertionError("a log has files")


def _last_time_ns(file: FileReader, following: int, open_file: _Open) -> int:
    """A time at which all the file's records were there."""
    header, now_ns = file.header, time.time_ns()
    known = file.last_time_ns()
    if known is None or known < believed_ns(header.created_ns, now_ns):
        known = file.modified_ns  # what the index says is of before the file was made
    if known > now_ns:
        # A clock was ahead.  All of them were there when the next file was made, by the clock as it was then.
        after = open_file(following)
        try:
            made_ns = believed_ns(after.header.created_ns, now_ns)
        finally:
            after.close()
        if made_ns > believed_ns(header.created_ns, now_ns):
            return made_ns
    return known
