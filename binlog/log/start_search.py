"""Finding where a reader begins that names a sequence number or a time."""

from __future__ import annotations

from collections.abc import Callable

from binlog.errors import GoneError
from binlog.log.file_reader import FileReader
from binlog.log.place import Place
from binlog.log.start import Sequence, Since

_Open = Callable[[int], FileReader]


def place_of_sequence(start: Sequence, numbers: list[int], open_file: _Open) -> Place:
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
                place = Place(file, file.offset_of(start.number), start.number)
                kept = True
                return place
            foreign = foreign if header.ours else number
        finally:
            if not kept:
                file.close()
    if foreign == numbers[0]:
        raise ValueError(f"sequence {start.number}: another program made file {foreign}, and gave no numbers")
    raise GoneError(f"sequence {start.number}: the log now starts with file {numbers[0]}, which has higher numbers")


def place_since(start: Since, numbers: list[int], open_file: _Open) -> Place:
    """A place before which nothing was appended at that time or later.  numbers: of the files in use, in order.

    Raises: CorruptError.
    """
    time_ns = start.time_ns
    for number in numbers:
        file = open_file(number)
        kept = False
        try:
            if number == numbers[-1] or _last_time_ns(file) >= time_ns:
                found = file.since(time_ns)
                place = Place(file, found.offset, found.sequence if file.header.ours else None)
                kept = True
                return place
        finally:
            if not kept:
                file.close()
    raise AssertionError("a log has files")


def _last_time_ns(file: FileReader) -> int:
    """A time at which all the file's records were there."""
    known = file.last_time_ns()
    return file.modified_ns if known is None else known
