"""What a query's filters say of where its records lie, so that the rest of the log is never read.

A filter only ever narrows what is read: Spark applies all of them again to the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from binlog import narrow

Bounds = tuple[int | None, int | None]

_ANY: Bounds = (None, None)
_COLUMNS = ("number", "offset", "sequence", "time")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Wanted:
    """The lowest and the highest that is wanted of each column; a time in microseconds since 1970 UTC."""

    bounds: dict[str, Bounds] = field(default_factory=dict)

    def add(self, filters: Iterable[Any]) -> None:
        """Take in what filters say, all of which a row must pass; those that say nothing of places are passed over."""
        for each in filters:
            found = _bounds_of(each)
            if found is not None:
                column, (low, high) = found
                lowest, highest = self.bounds.get(column, _ANY)
                self.bounds[column] = (_most(max, lowest, low), _most(min, highest, high))

    def anything_of(self, number: int) -> bool:
        """Whether anything of a file may be wanted."""
        lowest, highest = self.bounds.get("number", _ANY)
        return (lowest is None or lowest <= number) and (highest is None or number <= highest)

    def narrow(self, path: str, number: int, start: int, end: int) -> tuple[int, int]:
        """The part of a range of a file that may be wanted."""
        offsets, sequences, times = (self.bounds.get(column, _ANY) for column in ("offset", "sequence", "time"))
        if offsets == sequences == times == _ANY:
            return start, end
        earliest, latest = times
        times_ns = (
            None if earliest is None else earliest * 1000,
            None if latest is None else latest * 1000 + 999,  # a row's time has microseconds, cut off
        )
        return narrow(path, number, start, end, offsets=offsets, sequences=sequences, times_ns=times_ns)


def _most(choose: Any, one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return choose(known) if known else None


def _bounds_of(each: Any) -> tuple[str, Bounds] | None:
    """The column that a filter is about, and what it leaves of it; None for a filter that is no comparison."""
    kind = type(each).__name__
    path: tuple[str, ...] = getattr(each, "attribute", ())
    column = path[0].lower() if len(path) == 1 else ""
    if column not in _COLUMNS:
        return None
    values = [_whole(value) for value in (each.value if kind == "In" else [getattr(each, "value", None)])]
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    ranges: dict[str, Bounds] = {
        "EqualTo": (low, high),
        "EqualNullSafe": (low, high),
        "In": (low, high),
        "GreaterThan": (low + 1, None),
        "GreaterThanOrEqual": (low, None),
        "LessThan": (None, high - 1),
        "LessThanOrEqual": (None, high),
    }
    return (column, ranges[kind]) if kind in ranges else None


def _whole(value: Any) -> int | None:
    if isinstance(value, datetime):
        since = value.astimezone(UTC) - _EPOCH
        return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return value if isinstance(value, int) else None
