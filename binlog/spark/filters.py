"""Bounds from a query's filters, so that rows that no filter passes are not read.

They only narrow what is read: Spark applies all filters again to the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

Bounds = tuple[Any, Any]

ANY: Bounds = (None, None)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Filters:
    """The lowest and highest value wanted of each column: integers, strings, or times.  None means no bound.

    Times are in microseconds since 1970 UTC.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ()

    bounds: dict[str, Bounds] = field(default_factory=dict)

    def add(self, filters: Iterable[Any]) -> None:
        """Apply filters, all of which a row must pass.  Filters on other columns than COLUMNS are ignored."""
        for each in filters:
            found = _bounds_of(each, self.COLUMNS)
            if found is not None:
                column, (low, high) = found
                lowest, highest = self.of(column)
                self.bounds[column] = (_tighter(max, lowest, low), _tighter(min, highest, high))

    def of(self, column: str) -> Bounds:
        """Return the bounds of a column."""
        return self.bounds.get(column, ANY)

    def allows(self, column: str, value: Any) -> bool:
        """Return whether a row with this value in the column may pass."""
        lowest, highest = self.of(column)
        return (lowest is None or lowest <= value) and (highest is None or value <= highest)


def _tighter(choose: Any, one: Any, other: Any) -> Any:
    known = [value for value in (one, other) if value is not None]
    return choose(known) if known else None


def _bounds_of(each: Any, columns: tuple[str, ...]) -> tuple[str, Bounds] | None:
    """Return the column of a filter and the bounds it sets, or None if it is not a comparison of a column."""
    kind = type(each).__name__
    path: tuple[str, ...] = getattr(each, "attribute", ())
    column = path[0].lower() if len(path) == 1 else ""
    if column not in columns:
        return None
    values = [_comparable(value) for value in (each.value if kind == "In" else [getattr(each, "value", None)])]
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    ranges: dict[str, Bounds] = {
        "EqualTo": (low, high),
        "EqualNullSafe": (low, high),
        "In": (low, high),
        "GreaterThan": (_next(low, 1), None),
        "GreaterThanOrEqual": (low, None),
        "LessThan": (None, _next(high, -1)),
        "LessThanOrEqual": (None, high),
    }
    return (column, ranges[kind]) if kind in ranges else None


def _comparable(value: Any) -> int | str | None:
    if isinstance(value, datetime):
        since = value.astimezone(UTC) - _EPOCH
        return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return value if isinstance(value, int | str) else None


def _next(value: Any, step: int) -> Any:
    """Return the next number in the direction of `step`; a string has none, so return it unchanged."""
    return value + step if isinstance(value, int) else value
