"""A sync that all who wait for one share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count


class SharedSync:
    """Whoever waits first syncs; those who come meanwhile share the next one."""

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync = sync
        self._tickets = count(1)
        self._last = 0
        self._done = 0
        self._mutex = threading.Lock()

    def wait(self) -> None:
        """Return once a sync was begun after this call, and has ended.  Raises: what `sync` raises."""
        ticket = next(self._tickets)
        with self._mutex:
            if ticket <= self._done:
                return
            # All who have a smaller ticket than this one had written what they wait for.
            through = next(self._tickets)
            self._sync()
            self._done = through
