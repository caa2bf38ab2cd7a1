"""The index of a log file: a sidecar that can be made again from the log file, and is never believed over it.

A header of 32 bytes, then entries of 32 bytes.  Each tells of a range of whole records; the ranges follow one another
from the log file's first record on.  An entry never lies across a 512-byte sector, so after a power cut each is there
or is not; where the entries stop to follow one another, the index ends.
"""

from __future__ import annotations

import sys
from array import array
from typing import NamedTuple

from binlog.format.layout import Field, Layout

VERSION = 1
RANGE_BYTES_MAX = 1 << 16
MAGIC = b"BINLOGIX"

INDEX_HEADER = Layout(
    "index_header",
    "The header of an index",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGIX`", const=MAGIC),
        Field("version", "u16", "a reader takes an index of another version for none", const=VERSION),
        Field("reserved", "u16", "zero", const=0),
        Field("number", "u32", "the log file's number"),
        Field("uuid", "bytes:16", "of the log; zeros where another program made the log file"),
    ),
)

INDEX_ENTRY = Layout(
    "index_entry",
    "An entry of an index",
    size=32,
    fields=(
        Field("sequence", "u64", "the sequence number of the range's first record"),
        Field("offset", "u64", "where in the log file the range starts"),
        Field("time_ns", "u64", "when the whole range was in the file, nanoseconds since 1970 UTC; never goes back"),
        Field("range_bytes", "u32", "of the range: whole records"),
        Field("range_crc", "u32", "CRC-32C of the range"),
    ),
)

HEADER_BYTES = INDEX_HEADER.size
ENTRY_BYTES = INDEX_ENTRY.size
# Of 64 bits, in an entry: sequence, offset, time, and a last one of the range's bytes and its CRC.
_WORDS = 4
assert INDEX_ENTRY.format == ">QQQII"


class IndexEntry(NamedTuple):
    """A range of records."""

    sequence: int
    offset: int
    time_ns: int
    range_bytes: int
    range_crc: int

    @property
    def end(self) -> int:
        """Where the range ends, and the next one starts."""
        return self.offset + self.range_bytes

    def pack(self) -> bytes:
        """The entry's 32 bytes."""
        return INDEX_ENTRY.pack(self._asdict())


def parse_entry(data: bytes | memoryview, at: int = 0) -> IndexEntry:
    """The entry that lies at `at`, whatever it says."""
    return IndexEntry(*INDEX_ENTRY.unpack(data, at).values())


def entry_columns(entries: bytes | memoryview) -> tuple[array[int], array[int], array[int], list[int]]:
    """Whole entries, whatever they say: their sequences, offsets and times, and where each range ends."""
    words = array("Q")
    words.frombytes(entries)
    if sys.byteorder == "little":
        words.byteswap()
    sequences, offsets, times_ns, last = (words[number::_WORDS] for number in range(_WORDS))
    return sequences, offsets, times_ns, [offset + (word >> 32) for offset, word in zip(offsets, last, strict=True)]


def pack_header(*, number: int, uuid: bytes) -> bytes:
    """An index's header."""
    return INDEX_HEADER.pack({"number": number, "uuid": uuid})


def entry_count(file_bytes: int) -> int:
    """How many whole entries an index file of this size has."""
    return max(file_bytes - HEADER_BYTES, 0) // ENTRY_BYTES


def entry_offset(index: int) -> int:
    """Where in the index file an entry lies, counted from 0."""
    return HEADER_BYTES + index * ENTRY_BYTES
