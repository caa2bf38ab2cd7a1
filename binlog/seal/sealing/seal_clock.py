"""SealClock: the time for checkpoints, which never goes back, and steps of the system's clock."""

from __future__ import annotations

import time
from typing import NamedTuple

_STEP_SECONDS = 1.0


class ClockStep(NamedTuple):
    """A step of the system's clock.  before, after: the expected time, and the time shown,
    in seconds since 1970 UTC."""

    before: int
    after: int


class SealClock:
    """Gives the times that a sealer signs.  last_seconds: the last one, since 1970 UTC."""

    def __init__(self, last_seconds: int) -> None:
        self._last = last_seconds
        self._wall, self._steady = time.time(), _steady()
        self._signed = self._steady - max(self._wall - last_seconds, 0)

    def sign(self) -> int:
        """Return the time for a checkpoint, which is not before the last one; seconds since 1970 UTC."""
        self._last, self._signed = max(self._last, int(time.time())), _steady()
        return self._last

    def age(self) -> float:
        """Return how many seconds ago the last time was signed, also if the system's clock was set since then."""
        return _steady() - self._signed

    def step(self) -> ClockStep | None:
        """Return the step of more than a second, either way, that the system's clock made since the last call."""
        wall, steady = time.time(), _steady()
        expected = self._wall + steady - self._steady
        self._wall, self._steady = wall, steady
        return ClockStep(int(expected), int(wall)) if abs(wall - expected) > _STEP_SECONDS else None


def _steady() -> float:
    """Return the seconds since the machine was booted, also while it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
