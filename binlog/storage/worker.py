"""A thread that works whenever it is rung for.

Facts relied on:
- `threading.Thread.start` waits in Python for the thread to begin, and an exception of a signal handler in there may
  leave a lock behind that the thread needs.  `_thread.start_new_thread` is one call.
- Signal handlers run in the main thread alone, so none breaks into the work.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import suppress


class Worker:
    """It, from the first `ring` on; it does not keep the interpreter from ending."""

    def __init__(self, work: Callable[[], None]) -> None:
        """work: called after each ring, or several; it raises nothing."""
        self._work = work
        self._is_started = False
        self._starting = threading.Lock()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._running = threading.Lock()  # held by the thread
        self.stopping = threading.Event()
        self.ident = 0

    def ring(self) -> None:
        """Have it work; one step, for a signal handler to come before or after."""
        if not self._is_started:
            self._start()
        if self._bell.locked():  # else it rings already
            with suppress(RuntimeError):  # another thread was quicker
                self._bell.release()

    def pause(self, seconds: float) -> None:
        """Wait, as the work, until it is rung for again, or stopped, or for so long."""
        self._bell.acquire(timeout=seconds)

    def is_own_thread(self) -> bool:
        """Tell whether the caller is the work."""
        return self.ident == threading.get_ident()

    def stop(self) -> None:
        """End it, and wait for that.  It can be called again."""
        self.stopping.set()
        with suppress(RuntimeError):
            self._bell.release()
        with self._running:  # a thread that has not begun yet finds that it is to stop
            pass

    def _start(self) -> None:
        with self._starting:
            if not self._is_started:
                _thread.start_new_thread(self._run, ())
                self._is_started = True

    def _run(self) -> None:
        with self._running:
            self.ident = threading.get_ident()
            while not self.stopping.is_set():
                self._bell.acquire()
                if not self.stopping.is_set():
                    self._work()
