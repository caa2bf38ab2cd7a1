"""A few threads for what paging does beside its callers: syncing full pages, depaging, removing pages."""

from __future__ import annotations

from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Hashable

from binlog.paging.memory import wait_for_notice
from binlog.storage.native import Monitor


class Pool:
    """Threads that end with the process, whether it closed its paging or not.

    They begin with the first work.  failure: what a piece of work raised first.

    `Thread.start` waits in Python for the thread to begin: if a signal handler raises in that, it may leave a lock held
    for which the thread waits for ever.  So they are started by `start_new_thread`, which is one call of C.
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
        """Have it be done, after what was asked for before."""
        self.submit_once(object(), work)

    def submit_once(self, key: Hashable, work: Callable[[], None]) -> None:
        """Have it be done, unless work with the same key waits.  Of these one goes on at a time.

        Where one goes on, this is done behind it: what it is asked for may have come behind that one's last look.
        """
        with self._mutex:
            if self._stopping or key in self._waiting:
                return
            if key in self._running:
                self._requeued[key] = work
            else:
                self._add(key, work)

    def _add(self, key: Hashable, work: Callable[[], None]) -> None:
        """The mutex is held."""
        if self._busy + len(self._work) >= self._threads < self._thread_count:
            start_new_thread(self._run, ())
            self._threads += 1
        self._waiting.add(key)
        self._work.append((key, work))
        self._mutex.notify()

    def drain(self) -> None:
        """Wait until nothing waits or goes on."""
        with self._mutex:
            while self._busy or self._work:
                wait_for_notice(self._mutex)

    def stop(self) -> None:
        """Do what waits, and end."""
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
            except Exception as error:  # noqa: BLE001 - nobody sees what a thread raises; the manager tells of it
                self.failure = self.failure or error
            finally:
                with self._mutex:
                    self._busy -= 1
                    self._running.discard(key)
                    again = self._requeued.pop(key, None)
                    if again is not None:
                        self._add(key, again)
                    self._mutex.notify()
