"""Ranges of records with their CRCs, as an index has them: made and verified by the compiled code."""

from __future__ import annotations

import enum
from typing import Any

from binlog.format.index_file import ENTRY_BYTES
from binlog.storage.native import ffi, lib

_KEY_MAX = (1 << 64) - 1

# How far a writer brings an index up to date by itself, in bytes of the log file.
GAP_BYTES_MAX = int(lib.BINLOG_INDEX_GAP_BYTES)


class RangeStop(enum.IntEnum):
    """Why a verification ended."""

    END = lib.BINLOG_INDEX_END  # all entries hold
    SHORT = lib.BINLOG_INDEX_SHORT  # a range leads past the data given
    CHAIN = lib.BINLOG_INDEX_CHAIN  # an entry does not follow from the one before it
    ENTRY = lib.BINLOG_INDEX_ENTRY  # an entry does not have its own checksum
    CRC = lib.BINLOG_INDEX_CRC  # the data are not what was written
    RECORDS = lib.BINLOG_INDEX_RECORDS  # the CRC holds, and the records are not as many as the entry says


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


class Ranges:
    """Goes through ranges that follow one another.

    end: where the next one starts.  sequence: of the record there; None for any.
    seed: of the checksums of entries (format/index_file.py).
    """

    __slots__ = ("_state",)

    def __init__(self, end: int, sequence: int | None, time_ns: int = 0, *, seed: int) -> None:
        self._state: Any = ffi.new("struct binlog_index_state *")
        self._state.time_ns = time_ns
        self._state.seed = seed
        self.move(end, sequence)

    def move(self, end: int, sequence: int | None) -> None:
        """Go on at `end`."""
        self._state.end = end
        self._state.sequence = sequence or 0
        self._state.counted = sequence is not None

    @property
    def end(self) -> int:
        """Where the next range starts."""
        end: int = self._state.end
        return end

    @property
    def sequence(self) -> int | None:
        """The sequence number of the record there, where it is known."""
        sequence: int = self._state.sequence
        return sequence if self._state.counted else None

    @property
    def crc(self) -> int:
        """The CRC-32C of all that entries were built for, which costs next to nothing once each range has its own."""
        crc: int = self._state.crc
        return crc

    def build(self, data: bytes | bytearray | memoryview, *, to_end: bool) -> bytes:
        """Entries for the whole ranges that `data` holds, which lies at `end`; for all of it with `to_end`."""
        count_max = len(data) // (lib.BINLOG_INDEX_RANGE_BYTES // 2) + 2
        entries = ffi.new("uint8_t[]", count_max * ENTRY_BYTES)
        view = ffi.from_buffer("uint8_t[]", data)
        count = lib.binlog_index_build(view, len(data), to_end, self._state, entries, count_max)
        return bytes(ffi.buffer(entries, count * ENTRY_BYTES))

    def verify(self, entries: bytes | memoryview, data: bytes) -> tuple[int, RangeStop]:
        """How many of the entries hold for `data`, which lies at `end`, and why the next one does not."""
        count = len(entries) // ENTRY_BYTES
        view = ffi.from_buffer("uint8_t[]", entries)
        done = lib.binlog_index_verify(view, count, data, len(data), self._state)
        return done, RangeStop(self._state.stop)

    def follow(self, entries: bytes | memoryview, tail: int) -> int:
        """How many of the entries follow from `end` and one another, up to `tail` at most, whatever the data are."""
        view = ffi.from_buffer("uint8_t[]", entries)
        self._state.counted = False
        count: int = lib.binlog_index_verify(view, len(entries) // ENTRY_BYTES, ffi.NULL, tail - self.end, self._state)
        return count
