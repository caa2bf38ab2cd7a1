"""What a query's filters say of its rows' columns, so that what none of them can pass is never read.

A filter only ever narrows what is read: Spark applies all of them again to the rows.
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
    """The lowest and the highest that is wanted of each column, None for no bound: of whole numbers, texts, and times.

    A time is in microseconds since 1970 UTC.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ()

    bounds: dict[str, Bounds] = field(default_factory=dict)

    def add(self, filters: Iterable[Any]) -> None:
        """Take in what filters say, all of which a row must pass; those that say nothing of COLUMNS are passed over."""
        for each in filters:
            found = _bounds_of(each, self.COLUMNS)
            if found is not None:
                column, (low, high) = found
                lowest, highest = self.of(column)
                self.bounds[column] = (_tighter(max, lowest, low), _tighter(min, highest, high))

    def of(self, column: str) -> Bounds:
        """What is wanted of a column."""
        return self.bounds.get(column, ANY)

    def allows(self, column: str, value: Any) -> bool:
        """Whether a row may be wanted that has a value there."""
        lowest, highest = self.of(column)
        return (lowest is None or lowest <= value) and (highest is None or value <= highest)


def _tighter(choose: Any, one: Any, other: Any) -> Any:
    known = [value for value in (one, other) if value is not None]
    return choose(known) if known else None


def _bounds_of(each: Any, columns: tuple[str, ...]) -> tuple[str, Bounds] | None:
    """The column that a filter is about, and what it leaves of it; None for a filter that is no comparison."""
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
    """The number beside one; of a text, itself, for there is none."""
    return value + step if isinstance(value, int) else value
