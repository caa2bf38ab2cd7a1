"""Verifying a log file's bytes against its index.

An index that is missing, or ends early, is no problem: it is written after the records, and never synced.  Entries of
zeros are where a power cut ended it.  One that contradicts itself or the file's records is; and where the bytes of a
range are not those that were written, one of its records is damaged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from binlog.format.index_file import ENTRY_BYTES, RANGE_BYTES_MAX, IndexEntry, entry_columns, entry_offset, parse_entry
from binlog.format.log_header import LogHeader
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX
from binlog.log.index import Index
from binlog.log.large_record import too_large
from binlog.storage.content import Content, LostFrameError
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


@dataclass(frozen=True, slots=True)
class Verified:
    """Bytes that are what was written, and the entries of the ranges that fill them."""

    data: bytes
    entries: memoryview


class IndexCheck:
    """Goes through a log file once, by its index.  end: how far it has come.

    record_bytes_max: a larger record is not read, but refused with FullError.
    """

    def __init__(
        self,
        index: Index,
        content: Content,
        header: LogHeader,
        path: str,
        *,
        record_bytes_max: int = RECORD_BYTES_FORMAT_MAX,
    ) -> None:
        self._index = index
        self._content = content
        self._header = header
        self._path = path
        self._limit = record_bytes_max
        self._ranges = Ranges(header.first_offset, header.first_sequence)
        self._number = 0
        self._lost_end = 0

    @property
    def end(self) -> int:
        """Where the last range ends that was verified, or told as damaged."""
        return self._ranges.end

    @property
    def sequence(self) -> int | None:
        """The sequence number of the record there, where it is known."""
        return self._ranges.sequence

    def begin(self, offset: int) -> bool:
        """Begin at the range that holds `offset`, in place of the first one; whether the index has it."""
        if not self._index.fits(self._header):
            return False
        self._number = self._index.count_before(offset)
        data = self._index.entries(self._number, 1)
        if not data or not self._header.first_offset <= parse_entry(data).offset <= offset:
            return False
        self._ranges.move(parse_entry(data).offset, parse_entry(data).sequence)
        return True

    def run(self) -> Iterator[DamagedRange | Contradiction]:
        """Everything that is wrong, up to the log file's tail."""
        return (found for found in self.walk() if not isinstance(found, Verified))

    def walk(self, until: int | None = None) -> Iterator[Verified | DamagedRange | Contradiction]:
        """Everything, up to the log file's tail, or to the end of the range before `until` at least.

        Ends early where the index does.
        """
        until = self._header.tail if until is None else until
        if not self._index.fits(self._header):
            if not self._index.blank:
                yield Contradiction(0, "it is not the index of this log file")
            return
        while self.end < until and (entries := self._index.entries(self._number, _ENTRIES_AT_ONCE)):
            done, stop = yield from self._verify(entries, until)
            self._number += done
            if stop is RangeStop.END:
                continue
            if self._lost_end > self.end:
                if not (yield from self._pass_over(self._lost_end)):
                    return
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
        if not self.begin(start):
            return start
        while entries := self._index.entries(self._number, _ENTRIES_AT_ONCE):
            count = len(entries) // ENTRY_BYTES
            within = [number for number in range(count) if parse_entry(entries, number * ENTRY_BYTES).end > end]
            done = 0
            for verified in self._verify(entries[: within[0] * ENTRY_BYTES] if within else entries, end):
                done += len(verified.entries) // ENTRY_BYTES
            self._number += done
            if done < count:
                break
        return max(self._ranges.end, start)

    def _verify(self, entries: bytes, until: int) -> Generator[Verified, None, tuple[int, RangeStop]]:
        """Returns how many of the entries hold, and why the next one does not; END where all do that were asked for."""
        done, large, ends = 0, 0, entry_columns(entries)[-1]
        while done * ENTRY_BYTES < len(entries) and self._ranges.end < until:
            at = self._ranges.end
            size = large or _whole_ranges(ends, done, at, min(_READ_BYTES, until - at + RANGE_BYTES_MAX))
            data, lost_end = self._read(at, max(min(size, self._header.tail - at), 0))
            rest = memoryview(entries)[done * ENTRY_BYTES :]
            more, stop = self._ranges.verify(rest, data)
            done += more
            if more:
                yield Verified(data[: self._ranges.end - at], rest[: more * ENTRY_BYTES])
            if stop is not RangeStop.SHORT:
                return done, stop
            large = 0
            if more == 0:
                self._lost_end = lost_end
                entry = parse_entry(entries, done * ENTRY_BYTES)
                if len(data) < size or entry.end > self._header.tail:
                    return done, stop  # the log file ends before, or a frame of its archive is lost behind this
                large = entry.range_bytes
                length = int.from_bytes(data[:LENGTH_BYTES], "big")
                if large == LENGTH_BYTES + length and length > self._limit:
                    raise too_large(self._header.number, at, length, self._limit)
        return done, RangeStop.END

    def _read(self, at: int, size: int) -> tuple[bytes, int]:
        """As `read_at`, but no byte of a frame that an archive has lost, nor any behind it: and where that ends."""
        try:
            return read_at(self._content, size, at, self._path), 0
        except LostFrameError as lost:
            if lost.offset <= at:
                return b"", lost.end
            return read_at(self._content, lost.offset - at, at, self._path), lost.end

    def _pass_over(self, lost_end: int) -> Generator[DamagedRange | Contradiction, None, bool]:
        """Go on behind all ranges that are at least partly in a frame that an archive has lost; whether there are."""
        number = self._index.count_before(lost_end)
        number += number < self._index.count and self._index.entry(number).offset < lost_end
        entries = self._index.entries(self._number, number - self._number)
        ranges = Ranges(self.end, self.sequence)
        if not entries or ranges.follow(entries, self._header.tail) * ENTRY_BYTES != len(entries):
            yield Contradiction(entry_offset(self._number), f"its entries for {self.end} and on do not follow")
            return False
        self._number = number - 1
        following = self._following()
        before, after = self.sequence, None if following is None else following.sequence
        yield DamagedRange(self.end, ranges.end, None if before is None or after is None else max(after - before, 0))
        self._ranges.move(ranges.end, after)
        self._number = number
        return True

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


def _whole_ranges(ends: Sequence[int], first: int, at: int, size: int) -> int:
    """How much of `size` bytes from `at` on is filled by whole ranges, the first one of which has the number `first`.

    Then nothing is read twice, nor copied to leave off the end.  What hostile entries say decides on nothing more.
    """
    number = bisect_right(ends, at + size, first)
    filled = ends[number - 1] - at if number > first else 0
    return filled if 0 < filled <= size else size
