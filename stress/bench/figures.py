"""Figures for people: three digits are all that a measurement can support."""

from __future__ import annotations

from collections.abc import Callable

from stress.bench.sample import Spread

NONE = "-"

_NS_A_MICROSECOND = 1000


def number(value: float) -> str:
    """Return the number with thousands separators; small ones with as many places as make three digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def microseconds(nanoseconds: float) -> str:
    """Return nanoseconds as microseconds."""
    return number(nanoseconds / _NS_A_MICROSECOND)


def median(spread: Spread | None, show: Callable[[float], str] = number) -> str:
    """Return the median."""
    return show(spread.median) if spread else NONE


def span(spread: Spread | None, show: Callable[[float], str] = number) -> str:
    """Return the range."""
    return f"{show(spread.low)} to {show(spread.high)}" if spread else NONE


def both(spread: Spread | None, show: Callable[[float], str] = number) -> str:
    """Return the median and, in brackets, the range."""
    return f"{median(spread, show)} ({span(spread, show)})" if spread else NONE


def times(spread: Spread | None) -> str:
    """Return a ratio and its range."""
    return both(spread, lambda value: f"{value:.2f}")
