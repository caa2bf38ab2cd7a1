"""The last records of a log, and of those that arrive, without holding the others in memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import binlog
from binlog.cli.looking.sources import LogSource
from binlog.errors import BinlogError


class LastRecords:
    """The last `count_max` of the records added."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._batches: deque[binlog.Batch] = deque()
        self._held = 0

    def __len__(self) -> int:
        return min(self._held, self._count_max)

    def add(self, batch: binlog.Batch) -> None:
        """Add later records.  Keeps batches whole, because making an object for each record is slow."""
        if not len(batch):
            return
        self._batches.append(batch)
        self._held += len(batch)
        while self._batches and self._held - len(self._batches[0]) >= self._count_max:
            self._held -= len(self._batches.popleft())

    def entries(self) -> list[binlog.Entry]:
        """Return the records, in order."""
        entries = [entry for batch in self._batches for entry in batch.entries()]
        return entries[-self._count_max :] if self._count_max else []


@dataclass(frozen=True, slots=True)
class LastEntries:
    """The last records, in order.  after: the position after them.  problem: the error that ended the search."""

    entries: list[binlog.Entry]
    after: binlog.Ref | binlog.Start
    problem: BinlogError | None


def find_last(directory: str, count_max: int, *, bytes_max: int | None = None) -> LastEntries:
    """Find the last records of a log.

    bytes_max: read no more than this.
    Blocks while it reads.  Holds a few MiB and the records found.
    Raises: as binlog.stat.
    """
    log = binlog.stat(directory)
    backwards = LogSource(directory, directory, bytes_max=bytes_max).backwards(log)
    entries: list[binlog.Entry] = []
    for found in backwards.last(count_max):
        entries += found.batch.entries()[found.indexes[0] :]
    # Not Start.END if the log has no files: a reader there would skip the first records of the first file.
    return LastEntries(entries, log.tail or binlog.Start.BEGINNING, backwards.problem)
