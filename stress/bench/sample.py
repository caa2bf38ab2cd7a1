"""Samples of measurements, and their spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


class MeasureError(Exception):
    """A measurement could not be made; the text is for the table."""


@dataclass(frozen=True)
class Waits:
    """The durations of single calls, in nanoseconds."""

    p50_ns: int
    p99_ns: int
    longest_ns: int

    @classmethod
    def of(cls, waits_ns: Sequence[int]) -> Waits:
        """Return the nearest-rank percentiles of at least one wait."""
        ordered = sorted(waits_ns)
        last = len(ordered) - 1
        return cls(ordered[last // 2], ordered[last * 99 // 100], ordered[last])


@dataclass(frozen=True)
class Sample:
    """One measurement: a figure in the unit of its row, and the waits, if they were kept."""

    value: float
    waits: Waits | None = None


@dataclass(frozen=True)
class Spread:
    """A median, with the least and the greatest value."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))
