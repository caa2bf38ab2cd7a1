"""Verifying a log file's bytes against its index.

An index that is missing, or ends early, is no problem: it is written after the records, and never synced.  Entries of
zeros are where a power cut ended it.  One that contradicts itself or the file's records is; and where the bytes of a
range are not those that were written, one of its records is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from binlog.format.index_file import ENTRY_BYTES, IndexEntry, entry_offset, parse_entry
from binlog.format.log_header import LogHeader
from binlog.log.index import Index
from binlog.storage.files import read_at
from binlog.storage.ranges import Ranges, RangeStop

_READ_BYTES = 1 << 20
_ENTRIES_AT_ONCE = 1 << 12


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes that are not what was written.  record_count: of the records that were there; None where not known."""

    start: int
    end: int
    record_count: int | None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """offset: in the index.  text: what is wrong."""

    offset: int
    text: str


class IndexCheck:
    """Goes through a log file once, by its index.  end: how far it has come."""

    def __init__(self, index: Index, fd: int, header: LogHeader, path: str) -> None:
        self._index = index
        self._fd = fd
        self._header = header
        self._path = path
        self._ranges = Ranges(header.first_offset, header.first_sequence)
        self._number = 0

    @property
    def end(self) -> int:
        """Where the last range ends that was verified, or told as damaged."""
        return self._ranges.end

    @property
    def sequence(self) -> int | None:
        """The sequence number of the record there, where it is known."""
        return self._ranges.sequence

    def run(self) -> Iterator[DamagedRange | Contradiction]:
        """Everything that is wrong, up to the log file's tail."""
        if not self._index.fits(self._header):
            if not self._index.blank:
                yield Contradiction(0, "it is not the index of this log file")
            return
        while entries := self._index.entries(self._number, _ENTRIES_AT_ONCE):
            done, stop = self._verify(entries)
            self._number += done
            if stop is RangeStop.END:
                continue
            entry = parse_entry(entries, done * ENTRY_BYTES)
            if entry.end > self._header.tail or not any(entry):
                return
            following = self._following()
            if stop is not RangeStop.CRC or not self._follow_on(entry, following):
                yield Contradiction(entry_offset(self._number), self._text(stop, entry))
                return
            count = None if following is None else following.sequence - entry.sequence
            yield DamagedRange(entry.offset, entry.end, count)
            self._ranges.move(entry.end, None if following is None else following.sequence)
            self._number += 1

    def complete(self) -> bool:
        """Whether nothing is wrong, and it reaches the log file's tail."""
        return next(self.run(), None) is None and self.end == self._header.tail

    def proven_end(self, start: int, end: int) -> int:
        """How far from `start`, and up to `end`, the bytes are what was written; `start` where that is not known."""
        if not self._index.fits(self._header):
            return start
        self._number = self._index.count_before(start)
        entries = self._index.entries(self._number, 1)
        if not entries or not self._header.first_offset <= parse_entry(entries).offset <= start:
            return start
        first = parse_entry(entries)
        self._ranges.move(first.offset, first.sequence)
        while entries := self._index.entries(self._number, _ENTRIES_AT_ONCE):
            count = len(entries) // ENTRY_BYTES
            within = [number for number in range(count) if parse_entry(entries, number * ENTRY_BYTES).end > end]
            done, _ = self._verify(entries[: within[0] * ENTRY_BYTES] if within else entries)
            self._number += done
            if done < count:
                break
        return max(self._ranges.end, start)

    def _verify(self, entries: bytes) -> tuple[int, RangeStop]:
        """How many of the entries hold, and why the next one does not; END where all do."""
        done, size = 0, _READ_BYTES
        while done * ENTRY_BYTES < len(entries):
            at = self._ranges.end
            data = read_at(self._fd, max(min(size, self._header.tail - at), 0), at, self._path)
            more, stop = self._ranges.verify(memoryview(entries)[done * ENTRY_BYTES :], data)
            done += more
            if stop is not RangeStop.SHORT:
                return done, stop
            if more == 0:
                entry = parse_entry(entries, done * ENTRY_BYTES)
                if len(data) < size or entry.end > self._header.tail:
                    return done, stop  # the log file ends before
                size = entry.range_bytes
            else:
                size = _READ_BYTES
        return done, RangeStop.END

    def _following(self) -> IndexEntry | None:
        """The entry after this one, where there is one that counts."""
        data = self._index.entries(self._number + 1, 1) if self._number + 1 < self._index.count else b""
        entry = parse_entry(data) if data else None
        return None if entry is None or not any(entry) or entry.end > self._header.tail else entry

    def _follow_on(self, entry: IndexEntry, following: IndexEntry | None) -> bool:
        if following is None:
            return True
        more = following.sequence - entry.sequence
        return following.offset == entry.end and 0 < more <= entry.range_bytes // 4

    def _text(self, stop: RangeStop, entry: IndexEntry) -> str:
        if stop is RangeStop.RECORDS:
            return f"its range from {entry.offset} to {entry.end} does not end where a record does"
        if stop is RangeStop.SHORT:
            return f"its range from {entry.offset} to {entry.end} leads past the end of the file"
        return f"its entry for {entry.offset} to {entry.end} does not follow from the one before it"
