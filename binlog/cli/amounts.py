"""Amounts as a person reads them.

How much came per second, over the last minute.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import NamedTuple

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(size: float) -> str:
    """`1.5 MiB`, with three digits or four."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    digits = 0 if unit == 0 or size >= 100 else 1
    return f"{size:.{digits}f} {_UNITS[unit]}"


def count_text(count: float | None) -> str:
    """`12,345`, and `-` for what is not known."""
    if count is None:
        return "-"
    return f"{count:,.1f}" if 0 < count < 10 and count != int(count) else f"{count:,.0f}"


def things_text(count: float | None, thing: str, things: str | None = None) -> str:
    """`1 record`, `2 records`.  things: of more than one, where that is not with an s."""
    return f"{count_text(count)} {thing if count == 1 else things or f'{thing}s'}"


def duration_text(seconds: float) -> str:
    """`3 s`, `12 min`, `5 h`, `2 d`: one unit is enough."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def time_text(time_ns: int | None) -> str:
    """`2025-01-31T12:00:00Z`, and `-` for what is not known.  Times are UTC, as in every output of ours."""
    if time_ns is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "-"  # a header can say anything


_BUCKET_SECONDS = 0.25
_BUCKETS_PER_SECOND = 4
HISTORY_SECONDS = 60


class Amount(NamedTuple):
    """Records, and the bytes that they take in the log."""

    records: float
    bytes: float


class RateMeter:
    """Counts what came in buckets of a quarter of a second.  Times are those of a monotonic clock, in seconds."""

    def __init__(self, now: float) -> None:
        self._started = now
        self._buckets: deque[tuple[int, Amount]] = deque()

    def add(self, now: float, amount: Amount) -> None:
        """Count what came just now."""
        index = int(now / _BUCKET_SECONDS)
        if self._buckets and self._buckets[-1][0] == index:
            before = self._buckets.pop()[1]
            amount = Amount(before.records + amount.records, before.bytes + amount.bytes)
        self._buckets.append((index, amount))
        while self._buckets[0][0] <= index - _BUCKETS_PER_SECOND * (HISTORY_SECONDS + 1):
            self._buckets.popleft()

    def per_second(self, now: float, seconds: float) -> Amount:
        """The rate over the last seconds, or since the start where that is less."""
        first = int((now - seconds) / _BUCKET_SECONDS) + 1
        covered = max(now - max(first * _BUCKET_SECONDS, self._started), _BUCKET_SECONDS)
        counted = [amount for index, amount in self._buckets if index >= first]
        return Amount(
            sum(amount.records for amount in counted) / covered, sum(amount.bytes for amount in counted) / covered
        )

    def history(self, now: float) -> list[float]:
        """The records of each of the last 60 whole seconds, the latest last."""
        seconds = [0.0] * HISTORY_SECONDS
        this = int(now)
        for index, amount in self._buckets:
            ago = this - index // _BUCKETS_PER_SECOND
            if 1 <= ago <= HISTORY_SECONDS:
                seconds[-ago] += amount.records
        return seconds
