"""What streams have in common, whatever they follow: limits, triggers, offsets that Spark compares as text.

Facts relied on (PySpark 4.2 and 4.3):

- An offset is a dict of dicts that Spark keeps as JSON, and compares as text: so its keys are always in one order.
- `initialOffset` is asked for a new query only; a restarted one begins with what its checkpoint has, and asks for
  `partitions` of a batch that may not have been finished with the very offsets of that batch.
- One object in one process of the driver is asked for all offsets of a query, and is pickled to the tasks.
- With a limit of ReadAllAvailable the options' limits do not count (Trigger.Once).
- With Trigger.AvailableNow, `prepareForTriggerAvailableNow` is called once, and `latestOffset` until it gives what it
  was given: so that must be an end fixed before.
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
    """How much one batch takes at most; None for all there is."""

    @property
    def records_per_trigger(self) -> int | None: ...

    @property
    def bytes_per_trigger(self) -> int | None: ...


class LimitedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says how far each batch goes: as far as there is something, or as the limits allow."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._final: Offset | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's names, here and below
        """What the options say; where there are two limits, `latestOffset` sees to both."""
        if self._limits.records_per_trigger is not None:
            return ReadMaxRows(self._limits.records_per_trigger)
        if self._limits.bytes_per_trigger is not None:
            return ReadMaxBytes(self._limits.bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of what this query reads."""
        self._final = self._end_offset({})

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """How far the next batch goes: to the published end of each, or as far as the limits allow."""
        ends = self._end_offset(start) if self._final is None else self._final
        # What has shrunk, or is gone, is found out by `partitions`.
        if isinstance(limit, ReadAllAvailable) or ends == start:
            return self._advanced(start, ends)
        return self._advanced(start, self._within_limits(start, ends))

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """What there is, for a query's progress."""
        return self._end_offset({})

    def _end_offset(self, start: Offset) -> Offset:
        """Up to where each can be read now.  start: where the stream is."""
        raise NotImplementedError

    def _within_limits(self, start: Offset, ends: Offset) -> Offset:
        """Of these ends, those that the next batch reaches within the limits."""
        raise NotImplementedError

    def _advanced(self, start: Offset, ends: Offset) -> Offset:
        """Where the stream is once it has moved from `start` to the ends that there are."""
        return dict(sorted({**start, **ends}.items()))


def divide_limit(limit: int | None, sizes: Mapping[K, int]) -> dict[K, int]:
    """A limit divided by size, and 1 at least for each where it suffices for that; empty for no limit."""
    if limit is None:
        return {}
    total = sum(sizes.values())
    least = min(1, limit // max(len(sizes), 1))
    found = {path: max(limit * size // total, least) for path, size in sizes.items()}
    # What those got that were raised to the least, the largest give up; what is left over, they get.
    for path in sorted(sizes, key=lambda each: sizes[each], reverse=True):
        rest = limit - sum(found.values())
        found[path] = max(found[path] + rest, least)
    return found
