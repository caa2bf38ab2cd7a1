"""Find the last records of a log without holding the others in memory."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

import binlog
from binlog.errors import BinlogError, GoneError


class LastRecords:
    """The last `count_max` of the records added; with a pattern, of those that match."""

    def __init__(self, count_max: int, pattern: re.Pattern[bytes] | None = None) -> None:
        self._count_max = count_max
        self._pattern = pattern
        self._pieces: deque[binlog.Batch | list[binlog.Entry]] = deque()
        self._held = 0

    def __len__(self) -> int:
        return min(self._held, self._count_max)

    def add(self, batch: binlog.Batch) -> None:
        """Add later records.  Keeps batches whole, because making an object for each record is slow."""
        piece = batch if self._pattern is None else matching(batch, self._pattern)
        if not piece:
            return
        self._pieces.append(piece)
        self._held += len(piece)
        while self._pieces and self._held - len(self._pieces[0]) >= self._count_max:
            self._held -= len(self._pieces.popleft())

    def entries(self) -> list[binlog.Entry]:
        """Return the records, in order."""
        entries: list[binlog.Entry] = []
        for piece in self._pieces:
            entries += piece.entries() if isinstance(piece, binlog.Batch) else piece
        return entries[-self._count_max :] if self._count_max else []


def matching(batch: binlog.Batch, pattern: re.Pattern[bytes]) -> list[binlog.Entry]:
    """Return the records of a batch in which the pattern is found."""
    return [entry for entry in batch.entries() if pattern.search(entry.data)]


@dataclass(frozen=True, slots=True)
class LastEntries:
    """The last records, in order.  after: the position after them.  problem: the error that ended the search."""

    entries: list[binlog.Entry]
    after: binlog.Ref | binlog.Start
    problem: BinlogError | None


def find_last(
    directory: str,
    count_max: int,
    pattern: re.Pattern[bytes] | None = None,
    *,
    bytes_max: int | None = None,
    verify: bool = True,
) -> LastEntries:
    """Find the last records of a log, in as many of its newest files as needed.

    bytes_max: skip files that would bring the bytes read above this.  verify: as of a Reader.
    Blocks while it reads those files.  Holds a few MiB and the records found.
    Raises: as binlog.stat.
    """
    entries: list[binlog.Entry] = []
    problem: BinlogError | None = None
    log = binlog.stat(directory)
    # Not Start.END if the log has no files: a reader there would skip the first records of the first file.
    after: binlog.Ref | binlog.Start = log.tail or binlog.Start.BEGINNING
    left = sum(file.tail for file in log.files) if bytes_max is None else bytes_max
    for file in reversed(log.files):
        left -= file.tail
        if left < 0:
            break
        last = LastRecords(count_max - len(entries), pattern)
        try:
            start = binlog.Ref(file.number, file.first_offset)
            reader = binlog.Reader(directory, start, follow=False, verify=verify)
        except (GoneError, ValueError):
            break  # retention removed it since the listing
        with reader:
            problem = _read_all(reader, last)
            if file is log.files[-1]:
                after = reader.next_ref
        entries = last.entries() + entries
        if problem is not None or len(entries) >= count_max:
            break
    return LastEntries(entries, after, problem)


def _read_all(reader: binlog.Reader, last: LastRecords) -> BinlogError | None:
    try:
        while batch := reader.read_batch():
            last.add(batch)
    except BinlogError as error:
        return error
    return None
