"""RangeReader: reads a part of one file and compares every byte with the index."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from binlog.format.index_file import entry_columns
from binlog.format.record import Stop, scan
from binlog.log.batch import Batch
from binlog.log.directory import LogDirectory
from binlog.log.index.index import opened_index
from binlog.log.index.index_check import DamagedRange, IndexCheck, Unproven, Verified
from binlog.log.read.file_reader import FileReader
from binlog.log.reader import RECORD_BYTES_MAX
from binlog.log.recovery.record_walk import too_large
from binlog.storage.files import LostFrameError

_BYTES_MAX = 1 << 20
_RECORDS_MAX = 1 << 18


@dataclass(frozen=True, slots=True)
class TimedBatch:
    """Consecutive records of one file, and when they were appended.

    batch: the records, of 1 MiB together or one larger record.
    ends, times_ns: integers, one item each per range of the index.  The records of the batch before ends[0] were in the
    file at times_ns[0], those from there to ends[1] at times_ns[1], and so on; both are empty without an index.
    """

    batch: Batch
    ends: array[int]
    times_ns: array[int]


class RangeReader:
    """Reads the records of one file between two offsets, as several readers of a large log do in parallel.

    path: the log's directory.  start, end: bounds of records; by default the file's first record and its tail.
    record_bytes_max: a larger record raises FullError; 64 MiB by default.

    Iteration gives TimedBatches, and a DamagedRange if bytes do not match the index or a frame of an archive is
    damaged, and continues after it.  Without an index only lengths are verified.  Needs no permission to write.
    Raises: NotFoundError, AccessError, CorruptError, VersionError; ValueError for a range that is not in the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        number: int,
        start: int | None = None,
        end: int | None = None,
        *,
        record_bytes_max: int = RECORD_BYTES_MAX,
    ) -> None:
        self._limit = record_bytes_max
        with ExitStack() as opened:
            self._directory = opened.enter_context(LogDirectory(path))
            self._file = FileReader(self._directory, number, record_bytes_max=record_bytes_max)
            opened.callback(self._file.close)
            header = self._file.header
            self.start = header.first_offset if start is None else start
            self.end = header.tail if end is None else end
            if not header.first_offset <= self.start <= self.end <= header.tail:
                raise ValueError(f"{self.start} to {self.end} is not in file {number}, which ends at {header.tail}")
            self._opened = opened.pop_all()

    @property
    def file_path(self) -> str:
        """The file's path."""
        return self._file.path

    @property
    def uuid(self) -> str | None:
        """The log's uuid, in hexadecimal; None for a file that another program made."""
        header = self._file.header
        return header.uuid.hex() if header.is_native else None

    def __iter__(self) -> Iterator[TimedBatch | DamagedRange]:
        """Yield the records in order.  Raises: CorruptError, FullError; ValueError if start or end is not a bound."""
        header = self._file.header
        close_end = min(self.end, header.published_tail) if header.is_native and header.closed else self.end
        at, sequence = yield from self._verified(close_end)
        if at < close_end:
            at, sequence = yield from self._plain(at, close_end, sequence)
        if at < self.end:
            yield from self._plain(at, self.end, None)  # another program appended it after the close

    def _plain(
        self, at: int, stop: int, sequence: int | None
    ) -> Generator[TimedBatch | DamagedRange, None, tuple[int, int | None]]:
        """Yield records that the index does not cover, up to `stop`; return their end and sequence number."""
        while at < stop:
            try:
                found = self._file.read(at, sequence, _RECORDS_MAX, min(_BYTES_MAX, stop - at))
            except LostFrameError as lost:
                yield DamagedRange(at, lost.end, None)
                at, sequence = lost.end, None
                continue
            batch = Batch.of(found)
            at += batch.offsets[-1]
            if at > stop:
                raise ValueError(f"no record of file {self._file.number} ends at {stop}")
            sequence = None if batch.first_sequence is None else batch.first_sequence + len(batch)
            yield TimedBatch(batch, array("Q"), array("Q"))
        return at, sequence

    def _verified(self, end: int) -> Generator[TimedBatch | DamagedRange, None, tuple[int, int | None]]:
        """Yield the records that the index covers; return their end, and the sequence number there."""
        header, file = self._file.header, self._file
        with opened_index(self._directory, header.number) as index:
            if index is not None:
                check = IndexCheck(index, file.content, header, file.path, record_bytes_max=self._limit)
                if self.start < end and check.begin(self.start):
                    at = check.end
                    for found in check.walk(end):
                        if isinstance(found, Verified):
                            yield self._timed_batch(found, at, end)
                            at = check.end
                        elif isinstance(found, DamagedRange):
                            yield found
                            at = found.end
                        elif isinstance(found, Unproven):
                            sequence = check.sequence if header.is_native else None
                            yield from self._plain(max(at, self.start), min(found.end, end), sequence)
                            at = found.end
                    if at > self.start:
                        return min(at, end), check.sequence if header.is_native else None
        return self.start, file.sequence_at(self.start)

    def _timed_batch(self, found: Verified, at: int, end: int) -> TimedBatch:
        """Return the requested records among verified ones.  at: the offset of the data."""
        header = self._file.header
        size = len(found.data)
        places = scan(found.data, size, self._limit, size // 4)
        if places.stop is Stop.LARGE:
            length = int.from_bytes(found.data[places.consumed : places.consumed + 4], "big")
            raise too_large(header.number, at + places.consumed, length, self._limit)
        first = self._bound(places.offsets, max(self.start - at, 0))
        last = self._bound(places.offsets, min(end - at, size))
        sequences, _, times_ns, _ = entry_columns(found.entries)
        before = sequences[0] + first
        among = slice(bisect_right(sequences, before) - 1, bisect_left(sequences, before + last - first))
        ends = array("Q", [*(each - before for each in sequences[among][1:]), last - first])
        sequence = before if header.is_native else None
        batch = Batch(header.number, at, found.data, places.offsets[first : last + 1], sequence)
        return TimedBatch(batch, ends, times_ns[among])

    def _bound(self, offsets: memoryview, offset: int) -> int:
        """Return which record starts at the offset, or the record count if the last one ends there."""
        index = bisect_left(offsets, offset)
        if index == len(offsets) or offsets[index] != offset:
            raise ValueError(f"no record of file {self._file.number} starts or ends at the offset asked for")
        return index

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
