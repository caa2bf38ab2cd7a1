"""Compares what is read of a log file with its index, so that no reader is given bytes that were not written.

Verified is what a sound entry of the index covers: all of a closed file, and all but the last 64 KiB or second of an
open one.  Not verified is what lies beyond the last entry, or beside a damaged one; what has no index; and what a
waiting reader is given as it wakes, which was written at that moment (docs/durability.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

from binlog.errors import CorruptError
from binlog.format.index_file import ENTRY_BYTES, RANGE_BYTES_MAX, IndexEntry, entry_offsets, entry_seed, parse_entry
from binlog.format.log_header import LogHeader
from binlog.format.record import LENGTH_BYTES
from binlog.log.directory import LogDirectory
from binlog.log.index import Index, open_index
from binlog.storage.files import content_bytes
from binlog.storage.ranges import Ranges, RangeStop
from binlog.storage.records import scan

_PLACE_BYTES = 4
# 2 MiB of records of 500 bytes that have an entry each.
_ENTRIES_AT_ONCE = 1 << 12


class Verification:
    """Reads one log file, range by range.

    header, fd, path: the log file's.  record_bytes_max: a range that one larger record fills is not read.
    """

    def __init__(
        self, directory: LogDirectory, header: LogHeader, fd: int, path: str, *, record_bytes_max: int
    ) -> None:
        self._directory = directory
        self._header = header
        self._fd = fd
        self._path = path
        self._limit = record_bytes_max
        self._seed = entry_seed(number=header.number, uuid=header.uuid)
        self._forget()

    def _forget(self) -> None:
        self._ranges = Ranges(0, None, seed=self._seed)
        self._number = 0  # of the entry that `_ranges` has come to
        self._entries = b""  # some, from `_first` on
        self._first = 0
        self._verified = b""  # the last bytes that were read, which lie at `_start`
        self._start = 0

    def read(self, tail: int, offset: int, size: int, records_max: int) -> tuple[bytes, bytes, int] | None:
        """Verified records from `offset` on, at most `size` bytes, but one at least; None if no entry covers that.

        tail: the file's.  Returns what `records.read_and_scan` does.
        Raises: CorruptError where they are not what was written.
        """
        if not self._start <= offset < self._start + len(self._verified):
            if offset != self._ranges.end and not self._begin(offset):
                return None
            found = self._next(tail, size)
            if found is None:
                return None
            if offset == self._start and len(found[0]) <= size and len(found[1]) <= _PLACE_BYTES * (records_max + 1):
                return found
        behind = offset - self._start
        length = LENGTH_BYTES + int.from_bytes(self._verified[behind : behind + LENGTH_BYTES], "big")
        data = self._verified[behind : behind + max(size, length)]
        places = scan(data, len(self._verified) - behind, self._limit, records_max)
        return (data, bytes(places.offsets), places.stop) if places.count else None

    def _begin(self, offset: int) -> bool:
        """Go to the range that holds `offset`; whether the index has it."""
        with self._opened() as index:
            if index is None:
                return False
            number = self._ahead(index, offset) if offset > self._ranges.end > 0 else index.count_before(offset)
            entry = index.entry(number) if number < index.count else None
            if entry is None or not self._header.first_offset <= entry.offset <= offset < entry.end:
                return False
            self._ranges = Ranges(entry.offset, entry.sequence, seed=self._seed, by_bytes=True)
            self._number = number
            self._take(index)
            return True

    def _ahead(self, index: Index, offset: int) -> int:
        """Which entry's range may hold `offset`, a little farther on: where the index ends, mostly."""
        offsets = entry_offsets(index.entries(self._number, _ENTRIES_AT_ONCE))
        if len(offsets) == _ENTRIES_AT_ONCE:
            return index.count_before(offset)
        return self._number + max(bisect_right(offsets, offset) - 1, 0)

    @contextmanager
    def _opened(self) -> Iterator[Index | None]:
        """The index as it is now; None if there is none of this file.

        It is not kept open: a program that closes all its descriptors would leave us with one of its own.
        """
        index = open_index(self._directory.fd, self._header.number, self._path)
        try:
            yield index if index is not None and index.fits(self._header) else None
        finally:
            if index is not None:
                index.close()

    def _take(self, index: Index) -> None:
        """Have the entries from `_number` on at hand."""
        self._entries = index.entries(self._number, _ENTRIES_AT_ONCE) if self._number < index.count else b""
        self._first = self._number

    def _next(self, tail: int, size: int) -> tuple[bytes, bytes, int] | None:
        """Read the next ranges and verify them; None if no entry tells of one that ends before the tail."""
        at = self._ranges.end
        first = self._following()
        found, done, stop = self._read(self._entries, first, max(size, RANGE_BYTES_MAX), tail)
        if not done:
            if stop in (RangeStop.CRC, RangeStop.RECORDS):
                self._refuse(at, tail)
            elif stop is RangeStop.SHORT:
                self._check_length(tail)
            return None
        self._number += done
        self._start, self._verified = at, found[0]
        return found

    def _read(
        self, entries: bytes, first: int, size: int, tail: int
    ) -> tuple[tuple[bytes, bytes, int], int, RangeStop]:
        to_tail = max(tail - self._ranges.end, 0)
        return self._ranges.read(self._fd, size, to_tail, entries, first, self._limit, self._path)

    def _following(self) -> int:
        """Which of the entries at hand is the one from `_number` on; more are read if it is not among them."""
        if not self._first <= self._number < self._first + len(self._entries) // ENTRY_BYTES:
            with self._opened() as index:
                self._entries = b""
                if index is not None:
                    self._take(index)
        return self._number - self._first if self._entries else 0

    def _entry(self) -> IndexEntry | None:
        """The entry from `_number` on, if it is sound."""
        entry = parse_entry(self._entries, self._seed, (self._number - self._first) * ENTRY_BYTES)
        return entry if entry is not None and entry.offset == self._ranges.end else None

    def _check_length(self, tail: int) -> None:
        """Raise CorruptError where the file ends within the range: what is left of it may not be where it was."""
        entry, file_bytes = self._entry(), content_bytes(self._fd)
        if entry is not None and file_bytes < entry.end <= tail:
            raise CorruptError(self._path, file_bytes, "truncated", f"the file ends before {entry.end}")

    def _refuse(self, at: int, tail: int) -> None:
        """Raise CorruptError, unless the index was made again since it was read, and says something else now."""
        self._forget()
        if not self._begin(at):
            return
        entry = self._entry()
        if entry is None or entry.offset != at:
            return
        _, _, stop = self._read(entry.pack(self._seed), 0, RANGE_BYTES_MAX, tail)
        if stop is not RangeStop.END:
            text = f"the bytes from {at} to {entry.end} are not those that were written there"
            raise CorruptError(self._path, at, "index-crc", text)
        self._forget()
