"""A log file and its index, as the C reads and compares them (native/log/read.c)."""

from __future__ import annotations

import enum

from binlog.format.index_file import ENTRY_BYTES, IndexEntry, parse_entry
from binlog.storage.descriptors import Identity
from binlog.storage.native import address, ffi, lib

# Not cleared, because that would touch all its pages, and the entries of a small index fill only one.
_uncleared = ffi.new_allocator(should_clear_after_alloc=False)

_KEY_MAX = (1 << 64) - 1

RawRecords = tuple[int, bytes, bytes, int]
"""An offset, the data at it, the offsets of the records in the data (of a `Scan`, as bytes), and a `Stop`'s number."""


class ReadOutcome(enum.IntEnum):
    """The reason why `read_records` returned no records."""

    NO_INDEX = lib.BINLOG_READ_NO_INDEX  # no index is open, or it has lost its name: open it again
    DAMAGED = lib.BINLOG_READ_DAMAGED  # the bytes contradict the index
    CUT = lib.BINLOG_READ_CUT  # the file ends before the range does


class RecordReading:
    """A log file to read, with its index.

    fd, identity: of the log file.  seed: of the checksums of its index's entries (format/index_file.py).
    record_bytes_max: reading stops before a longer record.
    address: of the `struct binlog_reading`, valid as long as this object.
    """

    __slots__ = ("_reading", "address")

    def __init__(self, fd: int, identity: Identity, *, seed: int, record_bytes_max: int) -> None:
        reading = _uncleared("struct binlog_reading *")
        lib.binlog_reading_begin(reading, fd, *identity, seed, record_bytes_max)
        self.address = address(reading)
        self._reading = reading

    def open_index(self, directory_fd: int, name: str, header: bytes) -> bool:
        """Open an index and compare reads with it; return whether one with this header exists."""
        return bool(lib.binlog_reading_open_index(self._reading, directory_fd, name.encode(), header))

    def close_index(self) -> None:
        """Close the index, unless the program closed it.  Reads are not verified until one is opened again."""
        lib.binlog_reading_close_index(self._reading)

    def __del__(self) -> None:
        if hasattr(self, "_reading"):  # an exception can end `__init__` before that
            self.close_index()

    def refused(self) -> IndexEntry:
        """Return the index entry that failed, after `DAMAGED` or `CUT`."""
        reading = self._reading
        at = (reading.number - reading.first) * ENTRY_BYTES
        entry = parse_entry(ffi.buffer(reading.entries)[at : at + ENTRY_BYTES], reading.ranges.seed)
        assert entry is not None
        return entry


class IndexKey(enum.IntEnum):
    """The field of an index entry to search by; END is the end of its range."""

    END = lib.BINLOG_INDEX_BY_END
    OFFSET = lib.BINLOG_INDEX_BY_OFFSET
    SEQUENCE = lib.BINLOG_INDEX_BY_SEQUENCE
    TIME_NS = lib.BINLOG_INDEX_BY_TIME


def count_through(fd: int, key: IndexKey, value: int, count: int, *, seed: int) -> int:
    """Return how many of the first `count` entries of an index have a key up to `value`.

    A damaged entry takes the key of the next sound one; if none is near, its key is greater than every value.
    """
    if value < 0:
        return 0
    found: int = lib.binlog_index_search(fd, seed, key, min(value, _KEY_MAX), 0, count)
    return found
