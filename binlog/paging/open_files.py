"""Files of which only so many are open at once."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Protocol


class Parked(Protocol):
    """A file that can be closed for a while."""

    def park(self) -> None: ...


class OpenFiles:
    """Those that are open, in the order in which they were opened."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._open: deque[Parked] = deque()

    def opened(self, file: Parked) -> None:
        """One more is open."""
        self._open.append(file)

    def closed(self, file: Parked) -> None:
        """One is not any more."""
        with suppress(ValueError):
            self._open.remove(file)

    def limit(self) -> None:
        """Park those that were opened first, where there are too many.  Raises: as `park`.

        Nobody calls this who keeps another one from being parked.
        """
        while len(self._open) > self._count_max:
            with suppress(IndexError):
                self._open.popleft().park()
