"""The last records of a log, without keeping the others."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

import binlog
from binlog.errors import BinlogError, GoneError


class LastRecords:
    """Keeps the last `count_max` records of those added, and with a pattern of those that match."""

    def __init__(self, count_max: int, pattern: re.Pattern[bytes] | None = None) -> None:
        self._count_max = count_max
        self._pattern = pattern
        self._pieces: deque[binlog.Batch | list[binlog.Entry]] = deque()
        self._held = 0

    def __len__(self) -> int:
        return min(self._held, self._count_max)

    def add(self, batch: binlog.Batch) -> None:
        """Add later records.  Batches are kept whole: an object for each record would take most of the time."""
        piece = batch if self._pattern is None else matching(batch, self._pattern)
        if not piece:
            return
        self._pieces.append(piece)
        self._held += len(piece)
        while self._pieces and self._held - len(self._pieces[0]) >= self._count_max:
            self._held -= len(self._pieces.popleft())

    def entries(self) -> list[binlog.Entry]:
        """The records kept, in order."""
        entries: list[binlog.Entry] = []
        for piece in self._pieces:
            entries += piece.entries() if isinstance(piece, binlog.Batch) else piece
        return entries[-self._count_max :] if self._count_max else []


def matching(batch: binlog.Batch, pattern: re.Pattern[bytes]) -> list[binlog.Entry]:
    """The records of a batch that contain a match."""
    return [entry for entry in batch.entries() if pattern.search(entry.data)]


@dataclass(frozen=True, slots=True)
class LastEntries:
    """entries: in order.  after: where what comes next will lie.  problem: what kept the search from its end."""

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
    """The last records of a log: in the newest file, and in earlier ones as far back as it takes.

    bytes_max: no file is read that would bring what was read over this.  verify: as of a Reader.
    Blocks: for reading those files.  Keeps a few MiB and the records found.
    Raises: as binlog.stat.
    """
    entries: list[binlog.Entry] = []
    problem: BinlogError | None = None
    log = binlog.stat(directory)
    # Not Start.END for a log without files: a reader there would pass over the first file's first records.
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
