"""How much came per second, over the last minute."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

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
