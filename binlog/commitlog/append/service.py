"""A thread of a store that does one thing again and again, until it is stopped or fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.errors import BinlogError, FullError, InternalError
from binlog.storage.waiting.worker import Worker


class Service:
    """Calls `work` every `seconds`, and sooner after `wake`; what it returns says otherwise for the next time.

    stopping: the call that goes on is the last one.
    pause_seconds: it sleeps so long after each call, so that what comes meanwhile is one call's work.
    concerns: has its name once it has failed, and while it has no room; who shares it among many looks at one thing.
    failure: what `work` raised, after which it is not called again; None while all is well.
    full: that it had no room, which is no failure: there may be some another time; None while there is.
    """

    def __init__(
        self,
        name: str,
        seconds: float,
        work: Callable[[], float | None],
        *,
        pause_seconds: float = 0.0,
        concerns: set[str] | None = None,
    ) -> None:
        self.failure: BinlogError | None = None
        self.full: FullError | None = None
        self._seconds = seconds
        self._work = work
        self._pause_seconds = pause_seconds
        self._concerns = set[str]() if concerns is None else concerns
        self._name = name
        self._worker = Worker(self._run)
        self._is_woken = False

    @property
    def stopping(self) -> bool:
        """See above."""
        return self._worker.stopping.is_set()

    def start(self) -> None:
        """Begin.  Raises: StateError if no thread can be made."""
        self._worker.start()
        self._worker.notify()  # for good: its work ends with it

    def wake(self) -> None:
        """Have it work now."""
        self._is_woken = True  # for a thread that has not begun yet, and was rung for
        self._worker.notify()

    def check(self) -> None:
        """Raises: what `work` raised; FullError while it has no room."""
        if self.failure is not None:
            raise self.failure
        if (full := self.full) is not None:
            raise FullError(str(full), limit=full.limit, size=full.size) from full

    def stop(self) -> None:
        """End; waits for what goes on.  Does nothing where it never began, or has ended."""
        self._worker.stop()

    def _has_room(self) -> None:
        if self.full is not None:
            self.full = None
            self._concerns.discard(self._name)

    def _run(self) -> None:
        seconds = self._seconds
        while self.failure is None:
            if not self._is_woken:
                self._worker.pause(max(seconds, 0.0))
            if self.stopping:
                return
            self._is_woken = False
            try:
                found = self._work()
                seconds = self._seconds if found is None else found
                self._has_room()
            except FullError as error:
                self.full = error
                self._concerns.add(self._name)
            except BinlogError as error:
                self.failure = error
            except Exception as error:  # noqa: BLE001 - nobody sees what a thread raises, and all ask for its failure
                self.failure = InternalError(f"{self._name}: {error!r}")
                self.failure.__cause__ = error
            if self.failure is not None:
                self._concerns.add(self._name)
            if self._pause_seconds:
                time.sleep(self._pause_seconds)
