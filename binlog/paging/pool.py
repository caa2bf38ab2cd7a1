"""A pool of background threads that sync full pages, depage, and remove pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

from binlog.paging.memory import wait_for_notice
from binlog.storage.native import Monitor
from binlog.storage.waiting.worker import start_thread


class Pool:
    """Daemon threads, which end with the process even if the paging was not closed.

    The first piece of work starts them.  failure: the first exception of any work.

    `Thread.start` waits in Python until the thread runs.  If a signal handler raises during that wait, it may leave a
    lock held that the thread needs.  So `start_thread` is used instead.
    """

    def __init__(self, thread_count: int) -> None:
        self._thread_count = thread_count
        self._mutex = Monitor()
        self._work: deque[tuple[Hashable, Callable[[], None]]] = deque()
        self._waiting: set[Hashable] = set()
        self._running: set[Hashable] = set()
        self._requeued: dict[Hashable, Callable[[], None]] = {}
        self._threads = 0
        self._busy = 0
        self._stopping = False
        self.failure: Exception | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Queue work after all earlier work."""
        self.submit_once(object(), work)

    def submit_once(self, key: Hashable, work: Callable[[], None]) -> None:
        """Queue work, unless work with the same key is queued already.  Work with one key never runs concurrently.

        If such work is running, the new work runs after it: the request may have come after that work's last check.
        """
        with self._mutex:
            if self._stopping or key in self._waiting:
                return
            if key in self._running:
                self._requeued[key] = work
            else:
                self._add(key, work)

    def _add(self, key: Hashable, work: Callable[[], None]) -> None:
        """Queue work; the caller holds the mutex."""
        if self._busy + len(self._work) >= self._threads < self._thread_count:
            start_thread(self._run)
            self._threads += 1
        self._waiting.add(key)
        self._work.append((key, work))
        self._mutex.notify()

    def drain(self) -> None:
        """Wait until no work is queued or running."""
        with self._mutex:
            while self._busy or self._work:
                wait_for_notice(self._mutex)

    def stop(self) -> None:
        """Finish all queued work, and end."""
        with self._mutex:
            self._stopping = True
            self._mutex.notify()
        self.drain()

    def _run(self) -> None:
        while True:
            with self._mutex:
                while not self._stopping and not self._work:
                    wait_for_notice(self._mutex)
                if not self._work:
                    return
                key, work = self._work.popleft()
                self._waiting.discard(key)
                self._running.add(key)
                self._busy += 1
            try:
                work()
            except Exception as error:  # noqa: BLE001 - no caller sees it; the manager reports it
                self.failure = self.failure or error
            finally:
                with self._mutex:
                    self._busy -= 1
                    self._running.discard(key)
                    again = self._requeued.pop(key, None)
                    if again is not None:
                        self._add(key, again)
                    self._mutex.notify()
