"""Format sizes, counts, durations and times for people, and measure rates."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import NamedTuple

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(size: float) -> str:
    """Format a size in bytes as `1.5 MiB`, with three or four digits."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    digits = 0 if unit == 0 or size >= 100 else 1
    return f"{size:.{digits}f} {_UNITS[unit]}"


def count_text(count: float | None) -> str:
    """Format a count as `12,345`; an unknown one is `-`."""
    if count is None:
        return "-"
    return f"{count:,.1f}" if 0 < count < 10 and count != int(count) else f"{count:,.0f}"


def things_text(count: float | None, thing: str, things: str | None = None) -> str:
    """Format a count with its noun: `1 record`, `2 records`.  things: the plural, if it is irregular."""
    return f"{count_text(count)} {thing if count == 1 else things or f'{thing}s'}"


def duration_text(seconds: float) -> str:
    """Format a duration in one unit: `3 s`, `12 min`, `5 h`, `2 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def time_text(time_ns: int | None) -> str:
    """Format a time in UTC, as all our output does: `2025-01-31T12:00:00Z`; an unknown one is `-`."""
    if time_ns is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "-"  # a damaged header can hold any number


_BUCKET_SECONDS = 0.25
_BUCKETS_PER_SECOND = 4
HISTORY_SECONDS = 60


class Amount(NamedTuple):
    """A count of records, and the bytes that they take in the log."""

    records: float
    bytes: float


class RateMeter:
    """The rate of records over the last minute, in buckets of 0.25 s.  Times are monotonic, in seconds."""

    def __init__(self, now: float) -> None:
        self._started = now
        self._buckets: deque[tuple[int, Amount]] = deque()

    def add(self, now: float, amount: Amount, *, since: float | None = None) -> None:
        """Count records that arrived now, or evenly since a time at which they had not arrived yet."""
        last = int(now / _BUCKET_SECONDS)
        first = last if since is None else min(int(since / _BUCKET_SECONDS) + 1, last)
        count = last - first + 1
        for index in range(first, last + 1):
            self._add(index, Amount(amount.records / count, amount.bytes / count))
        while self._buckets[0][0] <= last - _BUCKETS_PER_SECOND * (HISTORY_SECONDS + 1):
            self._buckets.popleft()

    def _add(self, index: int, amount: Amount) -> None:
        if self._buckets and self._buckets[-1][0] == index:
            before = self._buckets.pop()[1]
            amount = Amount(before.records + amount.records, before.bytes + amount.bytes)
        self._buckets.append((index, amount))

    def per_second(self, now: float, seconds: float) -> Amount:
        """Return the rate over the last `seconds`, or since the start if that is shorter."""
        first = int((now - seconds) / _BUCKET_SECONDS) + 1
        covered = max(now - max(first * _BUCKET_SECONDS, self._started), _BUCKET_SECONDS)
        counted = [amount for index, amount in self._buckets if index >= first]
        return Amount(
            sum(amount.records for amount in counted) / covered, sum(amount.bytes for amount in counted) / covered
        )

    def history(self, now: float) -> list[float]:
        """Return the record count of each of the last 60 whole seconds, the latest last."""
        seconds = [0.0] * HISTORY_SECONDS
        this = int(now)
        for index, amount in self._buckets:
            ago = this - index // _BUCKETS_PER_SECOND
            if 1 <= ago <= HISTORY_SECONDS:
                seconds[-ago] += amount.records
        return seconds
