"""IndexCheck: verifies a log file's bytes against its index.

A missing index, or one that ends early, is not a problem: it is written after the records and never synced.  Entries of
zeros mark the end that a power cut left.  An index that contradicts itself or the records is a problem.  An entry
counts only if it has its own checksum, which proves that it was written so for this file.  So if the bytes of a range
do not match a sound entry, and the entries around it agree with it, a record of the range is damaged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from binlog.format.index_file import (
    ENTRY_BYTES,
    INDEX_ENTRY,
    RANGE_BYTES_MAX,
    IndexEntry,
    Ranges,
    RangeStop,
    entry_offset,
    entry_offsets,
    parse_entry,
)
from binlog.format.log_header import LogHeader
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX
from binlog.log.index.index import Index
from binlog.log.recovery.record_walk import too_large
from binlog.storage.files import ByteSource, LostFrameError, read_at

_READ_BYTES = 1 << 20
_ENTRIES_AT_ONCE = 1 << 12
_SIZE_AT = INDEX_ENTRY.offset("range_bytes")


class DamagedRange(NamedTuple):
    """Bytes that are not those that were written.  record_count: of the records written there; None if not known."""

    start: int
    end: int
    record_count: int | None


class Contradiction(NamedTuple):
    """A contradiction between an index and its file.  offset: in the index.  text: the contradiction."""

    offset: int
    text: str


class Unproven(NamedTuple):
    """Bytes whose entries are damaged, so that only the records' lengths can be checked.

    record_count: of the records in it, by the entries around; None if not known.
    """

    start: int
    end: int
    record_count: int | None


class Verified(NamedTuple):
    """Bytes that are those that were written, and the entries of the ranges that fill them."""

    data: bytes
    entries: memoryview


class IndexCheck:
    """Goes through a log file once, range by range of its index.

    record_bytes_max: a larger record is not read, and raises FullError.
    """

    def __init__(
        self,
        index: Index,
        content: ByteSource,
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
        self._ranges = Ranges(header.first_offset, header.first_sequence, seed=index.seed)
        self._number = 0
        self._lost_end = 0

    @property
    def end(self) -> int:
        """The end of the last range that was verified, or reported as damaged."""
        return self._ranges.end

    @property
    def sequence(self) -> int | None:
        """The sequence number of the record at `end`, if it is known."""
        return self._ranges.sequence

    def begin(self, offset: int) -> bool:
        """Begin at the range that has `offset`, not at the first one; return False if the index has no such range."""
        if not self._index.fits(self._header):
            return False
        number = self._index.count_before(offset)
        entry = self._index.entry(number) if number < self._index.count else None
        if entry is None or not self._header.first_offset <= entry.offset <= offset:
            return False
        self._number = number
        self._ranges.move(entry.offset, entry.sequence)
        return True

    def run(self) -> Iterator[DamagedRange | Contradiction | Unproven]:
        """Yield everything that is wrong, up to the log file's tail."""
        return (found for found in self.walk() if not isinstance(found, Verified))

    def walk(self, until: int | None = None) -> Iterator[Verified | DamagedRange | Contradiction | Unproven]:
        """Yield each finding up to the log file's tail, or at least to the end of the range before `until`.

        Ends early if the index does.
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
                if not (yield from self._skip_lost(self._lost_end)):
                    return
                continue
            entry = parse_entry(entries, self._index.seed, done * ENTRY_BYTES)
            if entry is None:
                if not (yield from self._skip_damaged_entries(memoryview(entries)[done * ENTRY_BYTES :])):
                    return
                continue
            if entry.end > self._header.tail:
                return
            if stop is not RangeStop.CRC or not self._is_consecutive(entry, self._following()):
                yield Contradiction(entry_offset(self._number), self._text(stop, entry))
                return
            yield DamagedRange(entry.offset, entry.end, entry.record_count)
            self._ranges.move(entry.end, entry.next_sequence)
            self._number += 1

    def _skip_damaged_entries(self, entries: memoryview) -> Generator[Contradiction | Unproven, None, bool]:
        """Skip entries without their checksums; return whether a sound one follows."""
        if not any(entries[:ENTRY_BYTES]):
            return False  # the end that a power cut left
        found = self._index.sound(self._number)
        if found is None or found[1].end > self._header.tail:
            # If it is the last entry, a power cut may have torn it; a writer will cut it off.
            if found is not None or self._number < self._index.count - 1:
                yield Contradiction(entry_offset(self._number), "its entry there does not have its checksum")
            return False
        number, entry = found
        yield Contradiction(entry_offset(self._number), "its entry there does not have its checksum")
        start, sequence = self.end, self.sequence
        if entry.offset < start or (sequence is not None and entry.sequence < sequence):
            yield Contradiction(entry_offset(number), self._text(RangeStop.CHAIN, entry))
            return False
        if start < entry.offset:
            yield Unproven(start, entry.offset, None if sequence is None else entry.sequence - sequence)
        self._ranges.move(entry.offset, entry.sequence)
        self._number = number
        return True

    def complete(self) -> bool:
        """Return whether nothing is wrong and the index reaches the log file's tail."""
        return next(self.run(), None) is None and self.end == self._header.tail

    def proven_end(self, start: int, end: int) -> int:
        """Return how far from `start`, up to `end`, the bytes are as written; `start` if that is not known."""
        if not self.begin(start):
            return start
        while entries := self._index.entries(self._number, _ENTRIES_AT_ONCE):
            count = len(entries) // ENTRY_BYTES
            # Up to the first entry that is damaged, or whose range ends after `end`.
            parsed = (parse_entry(entries, self._index.seed, number * ENTRY_BYTES) for number in range(count))
            within = next((number for number, each in enumerate(parsed) if each is None or each.end > end), count)
            done = 0
            for verified in self._verify(entries[: within * ENTRY_BYTES], end):
                done += len(verified.entries) // ENTRY_BYTES
            self._number += done
            if done < count:
                break
        return max(self._ranges.end, start)

    def _verify(self, entries: bytes, until: int) -> Generator[Verified, None, tuple[int, RangeStop]]:
        """Verify entries; return how many hold, and why the next one does not: END if all up to `until` do."""
        done, large, offsets = 0, 0, entry_offsets(entries)
        while done * ENTRY_BYTES < len(entries) and self._ranges.end < until:
            at = self._ranges.end
            size = large or _whole_ranges(entries, offsets, done, at, min(_READ_BYTES, until - at + RANGE_BYTES_MAX))
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
                entry = parse_entry(entries, self._index.seed, done * ENTRY_BYTES)
                if entry is None or len(data) < size or entry.end > self._header.tail:
                    return done, stop  # the log file ends before, or the next frame of its archive is lost
                large = entry.range_bytes
                length = int.from_bytes(data[:LENGTH_BYTES], "big")
                if large == LENGTH_BYTES + length and length > self._limit:
                    raise too_large(self._header.number, at, length, self._limit)
        return done, RangeStop.END

    def _read(self, at: int, size: int) -> tuple[bytes, int]:
        """Read like `read_at`, but stop before a frame that an archive has lost; also return that frame's end, or 0."""
        try:
            return read_at(self._content, size, at, self._path), 0
        except LostFrameError as lost:
            if lost.offset <= at:
                return b"", lost.end
            return read_at(self._content, lost.offset - at, at, self._path), lost.end

    def _skip_lost(self, lost_end: int) -> Generator[DamagedRange | Contradiction, None, bool]:
        """Skip all ranges that are at least partly in a lost frame of an archive; return whether entries follow."""
        number = self._index.count_before(lost_end)
        last = self._index.entry(number) if number < self._index.count else None
        number += last is not None and last.offset < lost_end
        entries = self._index.entries(self._number, number - self._number)
        ranges = Ranges(self.end, self.sequence, seed=self._index.seed)
        if not entries or ranges.follow(entries, self._header.tail) * ENTRY_BYTES != len(entries):
            yield Contradiction(entry_offset(self._number), f"its entries for {self.end} and on do not follow")
            return False
        before, after = self.sequence, ranges.sequence
        yield DamagedRange(self.end, ranges.end, None if before is None or after is None else max(after - before, 0))
        self._ranges.move(ranges.end, after)
        self._number = number
        return True

    def _following(self) -> IndexEntry | None:
        """Return the next entry, if there is one that counts."""
        entry = self._index.entry(self._number + 1) if self._number + 1 < self._index.count else None
        return None if entry is None or entry.end > self._header.tail else entry

    def _is_consecutive(self, entry: IndexEntry, following: IndexEntry | None) -> bool:
        return following is None or (following.offset, following.sequence) == (entry.end, entry.next_sequence)

    def _text(self, stop: RangeStop, entry: IndexEntry) -> str:
        if stop is RangeStop.RECORDS:
            return f"its range from {entry.offset} to {entry.end} does not have the records that it should"
        if stop is RangeStop.SHORT:
            return f"its range from {entry.offset} to {entry.end} leads past the end of the file"
        return f"its entry for {entry.offset} to {entry.end} does not follow from the one before it"


def _whole_ranges(entries: bytes | memoryview, offsets: Sequence[int], first: int, at: int, size: int) -> int:
    """Return how many of `size` bytes from `at` on are filled by whole ranges, the first of which has index `first`.

    offsets: where each range of `entries` starts, and so the one before it ends.
    Whole ranges are neither read twice nor copied to cut off the end.  A hostile entry decides nothing more than that.
    """
    number = bisect_right(offsets, at + size, first)
    if number == len(offsets):
        end = offsets[-1] + int.from_bytes(entries[(number - 1) * ENTRY_BYTES + _SIZE_AT :][:4], "big")
        number -= end > at + size
    else:
        number -= 1
        end = offsets[number]
    if number < len(offsets):
        end = offsets[number]
    filled = end - at if number > first else 0
    return filled if 0 < filled <= size else size
