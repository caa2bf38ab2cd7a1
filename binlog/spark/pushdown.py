"""What a query's filters say of where its records lie, so that the rest of the log is never read."""

from __future__ import annotations

from typing import ClassVar

from binlog import narrow
from binlog.spark.filters import ANY, Filters


class Wanted(Filters):
    """Which records are wanted of a log."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("number", "offset", "sequence", "time")

    def narrow(self, path: str, number: int, start: int, end: int) -> tuple[int, int]:
        """The part of a range of a file that may be wanted."""
        offsets, sequences, times = (self.of(column) for column in ("offset", "sequence", "time"))
        if offsets == sequences == times == ANY:
            return start, end
        earliest, latest = times
        times_ns = (
            None if earliest is None else earliest * 1000,
            None if latest is None else latest * 1000 + 999,  # a row's time has microseconds, cut off
        )
        return narrow(path, number, start, end, offsets=offsets, sequences=sequences, times_ns=times_ns)
