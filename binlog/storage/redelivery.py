"""When messages that a consumer gave back are delivered again.

It is here because the queue and the page store share it.
"""

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
    """Return the default delay, in seconds, before a message that was delivered `given_count` times comes again.

    It is 0 after the first delivery, then a tenth of a second that doubles each time, up to a minute.
    """
    if given_count <= 1:
        return 0.0
    return min(_FIRST_SECONDS * 2.0 ** min(given_count - 2, _DOUBLINGS_MAX), _SECONDS_MAX)


def check_delay(delay: float | None) -> None:
    """Raise ValueError unless the delay is None or a number of seconds."""
    if delay is not None and not 0 <= delay < float("inf"):
        raise ValueError(f"delay={delay!r}: a number of seconds, 0 or more")


class DelayQueue(Generic[_T]):
    """Items in the order in which they become due.  It has no lock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _T]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, delay: float, item: _T) -> None:
        """Add an item that becomes due after `delay` seconds."""
        heapq.heappush(self._heap, (time.monotonic() + delay, next(self._order), item))

    def take_due(self) -> list[_T]:
        """Remove and return the items that are due, the earliest first."""
        now = time.monotonic()
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def take_all(self) -> list[_T]:
        """Remove and return all items, the earliest first."""
        return [heapq.heappop(self._heap)[2] for _ in range(len(self._heap))]

    def wait_seconds(self) -> float | None:
        """Return the seconds until the next item is due, or None if there is none."""
        return max(self._heap[0][0] - time.monotonic(), 0.0) if self._heap else None

    def clear(self) -> None:
        """Remove all items."""
        self._heap.clear()
