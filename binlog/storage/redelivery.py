"""Messages that were given back: after which delay each comes again, and which are due."""

from __future__ import annotations

import heapq
import time
from itertools import count
from typing import Generic, TypeVar

_FIRST_SECONDS = 0.1
_SECONDS_MAX = 60.0
_DOUBLINGS_MAX = 10

_T = TypeVar("_T")


def retry_delay(given_count: int) -> float:
    """How long a message waits that was given so often, unless told otherwise: not after the first time, then twice as

    long each time, a minute at most."""
    if given_count <= 1:
        return 0.0
    return min(_FIRST_SECONDS * 2.0 ** min(given_count - 2, _DOUBLINGS_MAX), _SECONDS_MAX)


def check_delay(delay: float | None) -> None:
    """Raises: ValueError for no time."""
    if delay is not None and not 0 <= delay < float("inf"):
        raise ValueError(f"delay={delay!r}: a number of seconds, 0 or more")


class DelayQueue(Generic[_T]):
    """What waits, in the order in which it is due.  Nothing locks it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _T]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, delay: float, item: _T) -> None:
        """Have it be due after so many seconds."""
        heapq.heappush(self._heap, (time.monotonic() + delay, next(self._order), item))

    def take_due(self) -> list[_T]:
        """Take those that are due, the earliest first."""
        now = time.monotonic()
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def take_all(self) -> list[_T]:
        """Take all, the earliest first."""
        return [heapq.heappop(self._heap)[2] for _ in range(len(self._heap))]

    def wait_seconds(self) -> float | None:
        """How long until the next one is due; None if there is none."""
        return max(self._heap[0][0] - time.monotonic(), 0.0) if self._heap else None

    def clear(self) -> None:
        """Forget all."""
        self._heap.clear()
