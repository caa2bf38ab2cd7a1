"""The part of a log to print, read forwards or backwards, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import binlog
from binlog.errors import BinlogError, CorruptError, GoneError, NotFoundError

# Backwards, this much is read at a time, and held in memory.
_RANGE_BYTES = 1 << 20
# A range of this size is split at a time, because each place to split it at takes a search of the index.
_SPLIT_BYTES = 16 << 20


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

    def spans(self, directory: str, batch: binlog.Batch) -> Iterator[range]:
        """Yield the indexes of the records of a batch that are in the window, by time; the batch is in it otherwise."""
        if not self.is_timed:
            yield range(len(batch))
            return
        timed = binlog.timed_batch(directory, batch)
        begin = 0
        for end, time_ns in zip(timed.ends, timed.times_ns, strict=True):
            if end > begin and self._has(time_ns):
                yield range(begin, end)
            begin = max(begin, end)

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
    with binlog.Reader(directory, binlog.Ref(number, offset), follow=False, verify=False) as reader:
        return binlog.timed_batch(directory, reader.read_batch(records_max=1)).times_ns[0]


def read_range(directory: str, part: Range, *, verify: bool) -> Iterator[binlog.Batch]:
    """Yield the records of a range, in batches.  Raises: as binlog.Reader."""
    with binlog.Reader(directory, binlog.Ref(part.number, part.start), follow=False, verify=verify) as reader:
        while batch := reader.read_batch():
            if batch.next_ref.offset >= part.end:
                yield batch.before(part.end)
                return
            yield batch


class BackwardBatches:
    """The records of ranges in batches, the last batch first; the records of a batch are in order.

    bytes_max: end before more than this would be read.
    At damage, the iteration ends after the records before it in its range, and `problem` is the error.  It also ends if
    retention removed a file.  Holds about 1 MiB.
    """

    def __init__(self, directory: str, ranges: list[Range], *, verify: bool, bytes_max: int | None = None) -> None:
        self.problem: BinlogError | None = None
        self._directory = directory
        self._ranges = ranges
        self._verify = verify
        self._bytes_max = bytes_max

    def __iter__(self) -> Iterator[binlog.Batch]:
        read = 0
        for part in self._parts():
            read += part.end - part.start
            if self._bytes_max is not None and read > self._bytes_max:
                return
            batches: list[binlog.Batch] = []
            try:
                for batch in read_range(self._directory, part, verify=self._verify):
                    batches.append(batch)  # noqa: PERF402 - keeps those before an error
            except (GoneError, NotFoundError):
                return
            except BinlogError as error:
                self.problem = error
            yield from reversed(batches)
            if self.problem is not None:
                return

    def _parts(self) -> Iterator[Range]:
        for number, start, end in reversed(self._ranges):
            while start < end:
                try:
                    first = self._start_of_last(number, start, end)
                    bounds = binlog.split_range(self._directory, number, first, end, bytes_max=_RANGE_BYTES)
                except NotFoundError:
                    return
                for bound in reversed(bounds):
                    yield Range(number, *bound)
                end = first

    def _start_of_last(self, number: int, start: int, end: int) -> int:
        """Return where the last part of a range begins that is to be split."""
        if end - start <= _SPLIT_BYTES:
            return start
        try:
            return binlog.narrow_range(self._directory, number, start, end, offsets=(end - _SPLIT_BYTES, None))[0]
        except CorruptError:
            return start  # reading the range raises it again
