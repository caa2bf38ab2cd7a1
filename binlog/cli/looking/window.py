"""The part of a log to print, read forwards or backwards, batch by batch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import binlog
from binlog.errors import CorruptError, NotFoundError

# Backwards, this much is read at a time: at the end of the log in small parts, because most users want few records.
_LAST_BYTES = 1 << 20
_PART_BYTES = 32 << 20


@dataclass(frozen=True)
class Window:
    """The part of a log to print.

    first: the record to start with.  number: of the only file.  since_ns: the earliest time.  until_ns: the time before
    which all records are.  None: no limit.
    """

    first: binlog.Ref | None = None
    number: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    @property
    def is_timed(self) -> bool:
        """Whether it has a limit in time."""
        return self.since_ns is not None or self.until_ns is not None

    def spans(self, times: binlog.RecordTimes, batch: binlog.Batch) -> Iterator[range]:
        """Yield the indexes of the records of a batch that are in the window, by time; the batch is in it otherwise.

        times: of the log.
        """
        if not self.is_timed:
            yield range(len(batch))
            return
        base, begin, end = batch.offset, 0, 0
        for timed in times.ranges(batch.number, base + batch.offsets[0], base + batch.offsets[-1]):
            after = bisect_left(batch.offsets, timed.end - base)
            if self._has(timed.time_ns):
                end = after
                continue
            if begin < end:
                yield range(begin, end)
            begin = end = max(after, end)
        if begin < end:
            yield range(begin, end)

    def _has(self, time_ns: int) -> bool:
        return (self.since_ns is None or time_ns >= self.since_ns) and (
            self.until_ns is None or time_ns < self.until_ns
        )


class Range(NamedTuple):
    """The records of a file from `start` up to `end`, which are bounds of records."""

    number: int
    start: int
    end: int


def ranges_of(directory: str, window: Window, log: binlog.LogStat | None = None) -> list[Range]:
    """Return the ranges of a log that have all records of the window, in order.  They may have other records too.

    log: the state of the log whose records are meant; the present one by default.
    Raises: GoneError, ValueError if there is no record to start with; as binlog.stat.
    """
    if window.first is not None:
        binlog.Reader(directory, window.first).close()  # checks the ref
    ranges = []
    files = [file for file in (log or binlog.stat(directory)).files if window.number in (None, file.number)]
    for file in files:
        start, end = file.first_offset, file.tail
        if window.first is not None and file.number <= window.first.number:
            start = end if file.number < window.first.number else window.first.offset
        with suppress(NotFoundError):  # retention removed it since the listing
            start, end = _narrowed(directory, file.number, start, end, window)
        if start < end:
            ranges.append(Range(file.number, start, end))
    return ranges


def _narrowed(directory: str, number: int, start: int, end: int, window: Window) -> tuple[int, int]:
    """Return the bounds of the records in the window's time, by the index; others may be between them."""
    if window.since_ns is not None:
        start, _ = binlog.narrow_range(directory, number, start, end, times_ns=(window.since_ns, None))
    if window.until_ns is not None and start < end:
        beyond, _ = binlog.narrow_range(directory, number, start, end, times_ns=(window.until_ns, None))
        # All records before it are earlier.  If the index ends there, the others have one time, which may be earlier.
        if beyond < end and _time_ns(directory, number, beyond) >= window.until_ns:
            end = beyond
    return start, end


def _time_ns(directory: str, number: int, offset: int) -> int:
    return binlog.RecordTimes(directory).ranges(number, offset, offset + 1)[0].time_ns


def read_range(directory: str, part: Range, *, verify: bool) -> Iterator[binlog.Batch]:
    """Yield the records of a range, in batches.  Raises: as binlog.Reader."""
    with binlog.Reader(directory, binlog.Ref(part.number, part.start), follow=False, verify=verify) as reader:
        while batch := reader.read_batch():
            if batch.next_ref.offset >= part.end:
                yield batch.before(part.end)
                return
            yield batch


def backward_parts(directory: str, ranges: list[Range], *, bytes_max: int | None = None) -> Iterator[Range]:
    """Yield ranges in parts, the last one first: of 1 MiB up to 32 MiB from the end, or up to a limit; then of 32 MiB.

    A part is larger if the index has no place in it, or if a record is larger.
    bytes_max: the limit; no part is begun with which there would be more bytes.
    Ends if retention removed a file.
    """
    read = 0
    for number, start, end in reversed(ranges):
        while start < end:
            try:
                first = _start_of_last(directory, number, start, end)
                bounds = [(first, end)]
                is_near_end = bytes_max is not None or read < _PART_BYTES
                if is_near_end or first == start:
                    size = _LAST_BYTES if is_near_end else _PART_BYTES
                    bounds = binlog.split_range(directory, number, first, end, bytes_max=size)
            except NotFoundError:
                return
            for part_start, part_end in reversed(bounds):
                read += part_end - part_start
                if bytes_max is not None and read > bytes_max:
                    return
                yield Range(number, part_start, part_end)
            end = first


def _start_of_last(directory: str, number: int, start: int, end: int) -> int:
    """Return where the last part of a range begins that is to be split."""
    if end - start <= _PART_BYTES:
        return start
    try:
        return binlog.narrow_range(directory, number, start, end, offsets=(end - _PART_BYTES, None))[0]
    except CorruptError:
        return start  # reading the range raises it again
