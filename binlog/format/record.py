"""A record in a log file, which is a 4-byte length and that many bytes, and its ref."""

from __future__ import annotations

import enum
import re
import struct
from typing import NamedTuple

from binlog._codec import frame_values, scan_records, unframe_values
from binlog.format.layout import Field, Layout

RECORD = Layout(
    "record",
    "A record",
    size=4,
    fields=(Field("length", "u32", "bytes of the record that follow, 0 to 2**31-1"),),
)

LENGTH_BYTES = RECORD.size
RECORD_BYTES_FORMAT_MAX = 2**31 - 1

_LENGTH = struct.Struct(">I")


def frame(record: bytes | bytearray | memoryview) -> bytes:
    """Return one record as a file stores it."""
    return b"".join((_LENGTH.pack(len(record)), record))


class Stop(enum.IntEnum):
    """The reason why a scan ended."""

    END = 0  # the tail, or as many records as asked for
    SHORT = 1  # a record ends after the bytes given
    LENGTH = 2  # a length is negative, or leads past the tail
    LARGE = 3  # a record is larger than the limit
    MORE = 4  # of a read: the records are those of whole ranges, and more than asked for


class Scan(NamedTuple):
    """The result of a scan: the records found, and the reason why it ended.

    consumed: their bytes.  offsets: of the records in the data and the end of the last, as uint32.
    """

    record_count: int
    consumed: int
    stop: Stop
    offsets: memoryview


def scan(data: bytes | memoryview, to_tail: int, record_bytes_max: int, count_max: int) -> Scan:
    """Find whole records from the start of `data`; `to_tail` is the distance from there to the log's tail."""
    found, stop = scan_records(data, to_tail, record_bytes_max, count_max)
    offsets = memoryview(found).cast("I")
    return Scan(len(offsets) - 1, offsets[-1], Stop(stop), offsets)


def part_of_records(
    data: bytes, start: int, size: int, record_bytes_max: int, count_max: int
) -> tuple[bytes, bytes, int] | None:
    """Return records of `data` from `start` on, at most `size` bytes but one at least; None if that one is too large.

    Returns their bytes, their offsets in these, as a Scan has them, and a Stop's number.
    """
    left = memoryview(data)[start:]
    size = max(size, LENGTH_BYTES + int.from_bytes(left[:LENGTH_BYTES], "big"))
    found = scan(left[:size], len(left), record_bytes_max, count_max)
    return (bytes(left[: found.consumed]), found.offsets.tobytes(), found.stop) if found.record_count else None


def frame_column(values: bytes | bytearray | memoryview, bounds: memoryview) -> tuple[bytes, memoryview]:
    """Return records with their lengths in one run, and their offsets and the end; the reverse of `unframe_column`."""
    found = frame_values(values, bounds)
    if found is None:
        raise ValueError("bounds are int32, one more than there are records, and rise within the values")
    data, places = found
    return data, memoryview(places).cast("I")


def unframe_column(data: bytes | memoryview, offsets: memoryview) -> tuple[bytes, memoryview]:
    """Return the records without their lengths in one run, and its bounds as int32, one more than records."""
    found = unframe_values(data, offsets)
    if found is None:
        raise ValueError("offsets are uint32, one more than there are records, and rise by a length each in the data")
    values, bounds = found
    return values, memoryview(bounds).cast("i")


_TEXT = re.compile(r"([0-9]{1,10}):([0-9]{1,19})", re.ASCII)
_NUMBER_MAX = 2**32 - 1
OFFSET_MAX = 2**63 - 1
COUNT_MAX = 2**63 - 1


class Ref(NamedTuple):
    """The ref of a record: the number of a file, and bytes from that file's start.

    Refs sort in the order of the log, are hashable, and are written `1:256`.
    """

    number: int
    offset: int

    def __str__(self) -> str:
        return f"{self.number}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Ref:
        """Return the ref that `str()` wrote.

        Raises: ValueError if the text is not a number from 1, a colon and an offset.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a ref, which is written as 1:256: {text!r}")
        ref = cls(int(match[1]), int(match[2]))
        ref.validate()
        return ref

    def validate(self) -> None:
        """Raise TypeError or ValueError if this cannot be a ref of any log."""
        if not isinstance(self.number, int) or not isinstance(self.offset, int):
            raise TypeError(f"a ref is two whole numbers, not {self!r}")
        if not 1 <= self.number <= _NUMBER_MAX or not 0 <= self.offset <= OFFSET_MAX:
            raise ValueError(f"out of range for a ref: {self}")
