"""SealClock: the time for checkpoints, which never goes back, and steps of the system's clock."""

from __future__ import annotations

import time
from typing import NamedTuple

_STEP_SECONDS = 1.0


class ClockStep(NamedTuple):
    """A step of the system's clock.  before, after: the expected time and the shown one, since 1970 UTC."""

    before: int
    after: int


class SealClock:
    """last_seconds: the last time that was signed, since 1970 UTC."""

    def __init__(self, last_seconds: int) -> None:
        self._last = last_seconds
        self._wall, self._steady = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> int:
        """Return the time, or the last one that this returned if that is later; seconds since 1970 UTC."""
        self._last = max(self._last, int(time.time()))
        return self._last

    def step(self) -> ClockStep | None:
        """Return the step of more than a second, either way, that the system's clock made since the last call."""
        wall, steady = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
        expected = self._wall + steady - self._steady
        self._wall, self._steady = wall, steady
        return ClockStep(int(expected), int(wall)) if abs(wall - expected) > _STEP_SECONDS else None
