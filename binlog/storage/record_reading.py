"""What the compiled code knows of a log file that it reads and compares with its index (native/read.c)."""

from __future__ import annotations

import enum

from binlog.format.index_file import ENTRY_BYTES, IndexEntry, parse_entry
from binlog.storage.descriptors import Identity
from binlog.storage.native import address, ffi, lib

# Cleared, all its pages would be touched, of which the entries of a small index fill one.
_uncleared = ffi.new_allocator(should_clear_after_alloc=False)

_KEY_MAX = (1 << 64) - 1

RawRecords = tuple[int, bytes, bytes, int]
"""Where data lie, the data, the places of the records in them (a `Scan`'s offsets, as bytes), and a `Stop`'s number."""


class ReadOutcome(enum.IntEnum):
    """Why nothing was read."""

    NO_INDEX = lib.BINLOG_READ_NO_INDEX  # none is open any more, or it lost its name: it is to be opened again
    DAMAGED = lib.BINLOG_READ_DAMAGED  # the bytes are not what was written
    CUT = lib.BINLOG_READ_CUT  # the file ends before the range does


class RecordReading:
    """What `read_records` reads.

    fd, identity: of the log file.  seed: of the checksums of its index's entries (format/index_file.py).
    record_bytes_max: no larger record is found.
    address: of what the C knows, valid as long as this is.
    """

    __slots__ = ("_reading", "address")

    def __init__(self, fd: int, identity: Identity, *, seed: int, record_bytes_max: int) -> None:
        self._reading = _uncleared("struct binlog_reading *")
        self.address = address(self._reading)
        lib.binlog_reading_begin(self._reading, fd, *identity, seed, record_bytes_max)

    def open_index(self, directory_fd: int, name: str, header: bytes) -> bool:
        """Open the index of that name, and compare with it from now on; whether there is one with this header."""
        return bool(lib.binlog_reading_open_index(self._reading, directory_fd, name.encode(), header))

    def close_index(self) -> None:
        """Close the index, unless it was closed behind our back; nothing is verified until one is opened again."""
        lib.binlog_reading_close_index(self._reading)

    def __del__(self) -> None:
        self.close_index()

    def refused(self) -> IndexEntry:
        """The entry of the index that was compared last, after `DAMAGED` and `CUT`."""
        reading = self._reading
        at = (reading.number - reading.first) * ENTRY_BYTES
        entry = parse_entry(ffi.buffer(reading.entries)[at : at + ENTRY_BYTES], reading.ranges.seed)
        assert entry is not None
        return entry


class IndexKey(enum.IntEnum):
    """What entries of an index are searched by: a field, or where the range ends."""

    END = lib.BINLOG_INDEX_BY_END
    OFFSET = lib.BINLOG_INDEX_BY_OFFSET
    SEQUENCE = lib.BINLOG_INDEX_BY_SEQUENCE
    TIME_NS = lib.BINLOG_INDEX_BY_TIME


def count_through(fd: int, key: IndexKey, value: int, count: int, *, seed: int) -> int:
    """How many of the first `count` entries of an index have a key that is not greater than `value`.

    A damaged entry counts as having the key of the next sound one, and as beyond everything if none is near.
    """
    if value < 0:
        return 0
    found: int = lib.binlog_index_search(fd, seed, key, min(value, _KEY_MAX), 0, count)
    return found
