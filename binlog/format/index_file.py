"""The index of a log file: a sidecar that can be rebuilt from the log file, and never overrides it.

A header of 32 bytes, then entries of 40 bytes.  Each describes a range of whole records; the ranges are consecutive
from the log file's first record on.  Each entry has its own checksum, which reveals an entry that a power cut tore or
that has a flipped bit.
"""

from __future__ import annotations

import enum
import sys
from array import array
from typing import NamedTuple

from binlog._codec import build_ranges, verify_ranges
from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout
from binlog.format.log_header import block_seed

VERSION = 2
RANGE_BYTES_MAX = 1 << 16
MAGIC = b"BINLOGIX"

INDEX_HEADER = Layout(
    "index_header",
    "The header of an index",
    size=32,
    fields=(
        Field("magic", "bytes:8", "`BINLOGIX`", const=MAGIC),
        Field("version", "u16", "a reader ignores an index of another version", const=VERSION),
        Field("reserved", "u16", "zero", const=0),
        Field("number", "u32", "the log file's number"),
        Field("uuid", "bytes:16", "UUID of the log; zeros if another program made the log file"),
    ),
)

INDEX_ENTRY = Layout(
    "index_entry",
    "An entry of an index",
    size=40,
    fields=(
        Field("sequence", "u64", "the sequence number of the range's first record"),
        Field("offset", "u64", "offset in the log file at which the range starts"),
        Field("time_ns", "u64", "when the whole range was in the file, nanoseconds since 1970 UTC; never decreases"),
        Field("range_bytes", "u32", "size of the range, which has only whole records"),
        Field("range_crc", "u32", "CRC-32C of the range"),
        Field("record_count", "u32", "records in the range"),
        Field("entry_crc", "u32", "CRC-32C of the 36 bytes before, seeded with uuid and number, as in a commit slot"),
    ),
)

HEADER_BYTES = INDEX_HEADER.size
ENTRY_BYTES = INDEX_ENTRY.size
# The words of 64 bits in an entry: sequence, offset, time, the range's bytes and CRC, and the rest.
_WORDS = 5
assert INDEX_ENTRY.format == ">QQQIIII"
_ENTRY_CRC = INDEX_ENTRY.offset("entry_crc")
_HEADER_START = INDEX_HEADER.pack({"number": 0, "uuid": bytes(16)})[: INDEX_HEADER.offset("number")]


class IndexEntry(NamedTuple):
    """An entry of an index: a range of records."""

    sequence: int
    offset: int
    time_ns: int
    range_bytes: int
    range_crc: int
    record_count: int

    @property
    def end(self) -> int:
        """The end of the range, which is the start of the next one."""
        return self.offset + self.range_bytes

    @property
    def next_sequence(self) -> int:
        """The sequence number of the record after the range."""
        return self.sequence + self.record_count

    def pack(self, seed: int) -> bytes:
        """Return the entry's 40 bytes.  seed: see `entry_seed`."""
        data = INDEX_ENTRY.pack({**self._asdict(), "entry_crc": 0})[:_ENTRY_CRC]
        return data + crc32c(data, seed).to_bytes(4, "big")


def entry_seed(*, number: int, uuid: bytes) -> int:
    """Return the seed of a log file's entry checksums, so that an entry of another file never matches."""
    return block_seed(uuid, number)


def parse_entry(data: bytes | memoryview, seed: int, at: int = 0) -> IndexEntry | None:
    """Return the entry at offset `at` of the data; None if it is not whole, or its checksum does not match."""
    if len(data) < at + ENTRY_BYTES:
        return None
    values = INDEX_ENTRY.unpack(data, at)
    if values.pop("entry_crc") != crc32c(data[at : at + _ENTRY_CRC], seed):
        return None
    return IndexEntry(**values)


def entry_offsets(entries: bytes | memoryview) -> array[int]:
    """Return the offsets of the ranges of whole entries, without checking these."""
    words = array("Q")
    words.frombytes(entries)
    offsets = words[1::_WORDS]
    if sys.byteorder == "little":
        offsets.byteswap()
    return offsets


def entry_columns(entries: bytes | memoryview) -> tuple[array[int], array[int], array[int], list[int]]:
    """Return the sequences, offsets, times and range ends of whole entries, without checking these."""
    words = array("Q")
    words.frombytes(entries)
    if sys.byteorder == "little":
        words.byteswap()
    sequences, offsets, times_ns, sizes = (words[number::_WORDS] for number in range(4))
    return sequences, offsets, times_ns, [offset + (word >> 32) for offset, word in zip(offsets, sizes, strict=True)]


def pack_header(*, number: int, uuid: bytes) -> bytes:
    """Return an index's header."""
    return _HEADER_START + number.to_bytes(4, "big") + uuid


def entry_count(file_bytes: int) -> int:
    """Return how many whole entries an index file of this size has."""
    return max(file_bytes - HEADER_BYTES, 0) // ENTRY_BYTES


def entry_offset(index: int) -> int:
    """Return the offset of an entry in the index file; the first has index 0."""
    return HEADER_BYTES + index * ENTRY_BYTES


class RangeStop(enum.IntEnum):
    """The reason why a verification ended."""

    END = 0  # all entries hold
    SHORT = 1  # a range ends after the data given
    CHAIN = 2  # an entry's range does not start at the end of the one before it
    CRC = 3  # the data are not those that were written
    RECORDS = 4  # the CRC matches, but the record count does not
    ENTRY = 5  # an entry's own checksum does not match


class Ranges:
    """Builds or verifies the entries of consecutive ranges, in compiled code.

    end: the start of the next range.  sequence: of its first record; None if any is right.
    seed: of the checksums of entries (see `entry_seed`).
    crc: the CRC-32C of all data that entries were built for, which costs almost nothing beside the CRCs of the ranges.
    """

    __slots__ = ("_counted", "_seed", "_sequence", "_time_ns", "crc", "end")

    def __init__(self, end: int, sequence: int | None, time_ns: int = 0, *, seed: int) -> None:
        self._time_ns = time_ns
        self._seed = seed
        self.crc = 0
        self.move(end, sequence)

    def move(self, end: int, sequence: int | None) -> None:
        """Continue at `end`."""
        self.end = end
        self._sequence = sequence or 0
        self._counted = sequence is not None

    @property
    def sequence(self) -> int | None:
        """The sequence number of the record at `end`, if it is known."""
        return self._sequence if self._counted else None

    def build(self, data: bytes | bytearray | memoryview, *, to_end: bool) -> bytes:
        """Return entries for the whole ranges of `data`, which starts at `end`; for all of the data if `to_end`."""
        state = (self.end, self._sequence, self._time_ns, self._seed, self.crc)
        entries, self.end, self._sequence, self.crc = build_ranges(data, to_end, state)
        return entries

    def verify(self, entries: bytes | memoryview, data: bytes) -> tuple[int, RangeStop]:
        """Return how many of the entries hold for `data`, which starts at `end`, and why the next one does not."""
        return self._verify(entries, data, len(data))

    def follow(self, entries: bytes | memoryview, tail: int) -> int:
        """Return how many of the entries are consecutive from `end` up to `tail`, without reading any data."""
        self._counted = False
        return self._verify(entries, None, tail - self.end)[0]

    def _verify(self, entries: bytes | memoryview, data: bytes | None, size: int) -> tuple[int, RangeStop]:
        state = (self.end, self._sequence, self._counted, self._time_ns, self._seed)
        done, stop, self.end, self._sequence, counted, self._time_ns = verify_ranges(entries, data, size, state)
        self._counted = bool(counted)
        return done, RangeStop(stop)
