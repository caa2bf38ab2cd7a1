"""The common part of the stream readers: read limits, triggers, and offsets.

Facts relied on (PySpark 4.2 and 4.3):

- An offset is a dict of dicts.  Spark stores it as JSON and compares it as text, so its keys must always have the same
  order.
- Spark calls `initialOffset` only for a new query.  A restarted query takes the offset from its checkpoint, and calls
  `partitions` for a batch that may be unfinished with exactly the offsets of that batch.
- One object in one process of the driver answers for all offsets of a query, and is pickled to the tasks.
- If the limit is ReadAllAvailable (Trigger.Once), the limits of the options do not apply.
- With Trigger.AvailableNow, Spark calls `prepareForTriggerAvailableNow` once, and `latestOffset` until it returns its
  argument, so the end must be fixed at the first call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

Offset = dict[str, dict[str, Any]]

K = TypeVar("K")


class Limits(Protocol):
    """The most that one batch reads; None for no limit."""

    @property
    def records_per_trigger(self) -> int | None: ...

    @property
    def bytes_per_trigger(self) -> int | None: ...


class LimitedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream reader that ends each batch at the current end or at the limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._final: Offset | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's names, here and below
        """Return a limit of the options; if there are two, `latestOffset` applies both."""
        if self._limits.records_per_trigger is not None:
            return ReadMaxRows(self._limits.records_per_trigger)
        if self._limits.bytes_per_trigger is not None:
            return ReadMaxBytes(self._limits.bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this query."""
        self._final = self._end_offset({})

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch: the published end, or as far as the limits allow."""
        ends = self._end_offset(start) if self._final is None else self._final
        # `partitions` reports anything that has shrunk or was removed.
        if isinstance(limit, ReadAllAvailable) or ends == start:
            return self._advanced(start, ends)
        return self._advanced(start, self._within_limits(start, ends))

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """Return the current end, for the query's progress report."""
        return self._end_offset({})

    def _end_offset(self, start: Offset) -> Offset:
        """Return the current end of everything that is read.  start: the position of the stream."""
        raise NotImplementedError

    def _within_limits(self, start: Offset, ends: Offset) -> Offset:
        """Return how far the next batch may go towards these ends within the limits."""
        raise NotImplementedError

    def _advanced(self, start: Offset, ends: Offset) -> Offset:
        """Return `start` with these ends in place of its own."""
        return dict(sorted({**start, **ends}.items()))


def divide_limit(limit: int | None, sizes: Mapping[K, int]) -> dict[K, int]:
    """Divide a limit in proportion to sizes, giving at least 1 to each if possible; empty for no limit."""
    if limit is None:
        return {}
    total = sum(sizes.values())
    least = min(1, limit // max(len(sizes), 1))
    found = {path: max(limit * size // total, least) for path, size in sizes.items()}
    # Take from the largest what the smallest were given to reach the minimum; give them any remainder.
    for path in sorted(sizes, key=lambda each: sizes[each], reverse=True):
        rest = limit - sum(found.values())
        found[path] = max(found[path] + rest, least)
    return found
