"""Ranges of records with their CRCs, as an index has them: made and verified by the compiled code."""

from __future__ import annotations

import enum

from binlog._codec import build_ranges, verify_ranges


class RangeStop(enum.IntEnum):
    """Why a verification ended."""

    END = 0  # all entries hold
    SHORT = 1  # a range leads past the data given
    CHAIN = 2  # an entry does not follow from the one before it
    CRC = 3  # the data are not what was written
    RECORDS = 4  # the CRC holds, and the records are not as many as the entry says
    ENTRY = 5  # an entry does not have its own checksum


class Ranges:
    """Goes through ranges that follow one another.

    end: where the next one starts.  sequence: of the record there; None for any.
    seed: of the checksums of entries (format/index_file.py).
    crc: the CRC-32C of all that entries were built for, which costs next to nothing once each range has its own.
    """

    __slots__ = ("_counted", "_seed", "_sequence", "_time_ns", "crc", "end")

    def __init__(self, end: int, sequence: int | None, time_ns: int = 0, *, seed: int) -> None:
        self._time_ns = time_ns
        self._seed = seed
        self.crc = 0
        self.move(end, sequence)

    def move(self, end: int, sequence: int | None) -> None:
        """Go on at `end`."""
        self.end = end
        self._sequence = sequence or 0
        self._counted = sequence is not None

    @property
    def sequence(self) -> int | None:
        """The sequence number of the record there, where it is known."""
        return self._sequence if self._counted else None

    def build(self, data: bytes | bytearray | memoryview, *, to_end: bool) -> bytes:
        """Entries for the whole ranges that `data` holds, which lies at `end`; for all of it with `to_end`."""
        state = (self.end, self._sequence, self._time_ns, self._seed, self.crc)
        entries, self.end, self._sequence, self.crc = build_ranges(data, to_end, state)
        return entries

    def verify(self, entries: bytes | memoryview, data: bytes) -> tuple[int, RangeStop]:
        """How many of the entries hold for `data`, which lies at `end`, and why the next one does not."""
        return self._verify(entries, data, len(data))

    def follow(self, entries: bytes | memoryview, tail: int) -> int:
        """How many of the entries follow from `end` and one another, up to `tail` at most, whatever the data are."""
        self._counted = False
        return self._verify(entries, None, tail - self.end)[0]

    def _verify(self, entries: bytes | memoryview, data: bytes | None, size: int) -> tuple[int, RangeStop]:
        state = (self.end, self._sequence, self._counted, self._time_ns, self._seed)
        done, stop, self.end, self._sequence, counted, self._time_ns = verify_ranges(entries, data, size, state)
        self._counted = bool(counted)
        return done, RangeStop(stop)
