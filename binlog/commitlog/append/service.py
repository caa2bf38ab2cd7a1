"""A background thread of a store, which repeats one task until it is stopped or fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.errors import BinlogError, FullError, InternalError
from binlog.storage.waiting.worker import Worker


class Service:
    """Calls `work` every `seconds`, or after the seconds that its last call returned, and sooner after `wake`.

    stopping: whether the current call is the last one.
    pause_seconds: sleep after each call, so that the next call handles everything that arrived in the meantime.
    unhealthy: contains the name of the service after it failed, and while it has no room.  Services share one set, so
        that an append checks a single object.
    failure: the error that `work` raised; it is not called again.  None while the service is healthy.
    full: the error of the last call if it found no room.  The next call retries.
    """

    def __init__(
        self,
        name: str,
        seconds: float,
        work: Callable[[], float | None],
        *,
        pause_seconds: float = 0.0,
        unhealthy: set[str] | None = None,
    ) -> None:
        self.failure: BinlogError | None = None
        self.full: FullError | None = None
        self._seconds = seconds
        self._work = work
        self._pause_seconds = pause_seconds
        self._unhealthy = set[str]() if unhealthy is None else unhealthy
        self._name = name
        self._worker = Worker(self._run)
        self._is_woken = False

    @property
    def stopping(self) -> bool:
        """Return whether the current call is the last one."""
        return self._worker.stopping.is_set()

    def start(self) -> None:
        """Start the thread.  Raises: StateError if no thread can be created."""
        self._worker.start()
        self._worker.notify()  # once: the thread then repeats `work` until it ends

    def wake(self) -> None:
        """Call `work` now."""
        self._is_woken = True  # the thread may not have started yet, and `start` has rung already
        self._worker.notify()

    def check(self) -> None:
        """Raise the error that `work` raised; FullError while it has no room."""
        if self.failure is not None:
            raise self.failure
        if (full := self.full) is not None:
            raise FullError(str(full), limit=full.limit, size=full.size) from full

    def stop(self) -> None:
        """Wait for the current call and end.  Does nothing if the service never started, or has ended."""
        self._worker.stop()

    def _clear_full(self) -> None:
        if self.full is not None:
            self.full = None
            self._unhealthy.discard(self._name)

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
                self._clear_full()
            except FullError as error:
                self.full = error
                self._unhealthy.add(self._name)
            except BinlogError as error:
                self.failure = error
            except Exception as error:  # noqa: BLE001 - a thread has no caller; `check` raises its failure
                self.failure = InternalError(f"{self._name}: {error!r}")
                self.failure.__cause__ = error
            if self.failure is not None:
                self._unhealthy.add(self._name)
            if self._pause_seconds:
                time.sleep(self._pause_seconds)
