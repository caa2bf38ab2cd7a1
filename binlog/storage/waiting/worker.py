"""A thread that works whenever it is rung for.

Facts relied on:
- `threading.Thread.start` waits in Python for the thread to begin, and an exception of a signal handler in there may
  leave a lock behind that the thread needs.  `_thread.start_new_thread` is one call.
- `queue.SimpleQueue.put` is one call too, and a finalizer may make it.
- Signal handlers run in the main thread alone, so none breaks into the work.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from binlog.errors import StateError

_Rings = SimpleQueue[Callable[[], None] | None]


class _Stop:
    """Whether it is to stop.  A `threading.Event` stays locked if a handler's exception comes out of its `set`."""

    def __init__(self) -> None:
        self._told: SimpleQueue[None] = SimpleQueue()
        self._is_set = False

    def set(self) -> None:
        """From here on it is."""
        self._is_set = True
        self._told.put(None)

    def is_set(self) -> bool:
        """Whether it is."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait for that, as the work, for so long; whether it is."""
        if not self._is_set:
            with suppress(Empty):
                self._told.get(timeout=seconds)
        return self._is_set


class Worker:
    """It, from `start` on; it does not keep the interpreter from ending, nor, without work, its owner from going.

    is_rung: whether `ring_once` has rung.  The work sets it to False before it looks at what there is to do.  Both
    happen under the owner's guard, so no ring is lost.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        """work: called after each ring, or several; it raises nothing."""
        self._work = work
        self._rings: _Rings = SimpleQueue()  # the work, so that its owner is there until it is done
        self._running = threading.Lock()  # held by the thread
        self.stopping = _Stop()
        self.is_rung = False
        self.ident = 0

    def start(self) -> None:
        """Begin, as the last step of an opening.  Raises: StateError if no thread can be made."""
        try:
            self.ident = _thread.start_new_thread(_run, (self._rings, self.stopping, self._running))
        except RuntimeError as error:
            raise StateError(f"this needs a thread: {error}") from error

    def ring(self) -> None:
        """Have it work; one step, for a signal handler to come before or after."""
        if self._rings.empty():  # else it rings already
            self._rings.put(self._work)

    def ring_once(self) -> None:
        """Ring, unless that was done since the work last began.  The owner's guard is held."""
        if not self.is_rung:
            self.ring()
            self.is_rung = True  # after the ring: an exception between the two must not leave it unrung

    def pause(self, seconds: float) -> None:
        """Wait, as the work, until it is rung for again, or stopped, or for so long."""
        with suppress(Empty):
            self._rings.get(timeout=seconds)

    def is_own_thread(self) -> bool:
        """Tell whether the caller is the work."""
        return self.ident == threading.get_ident()

    def stop(self) -> None:
        """End it, and wait for that.  It can be called again."""
        self.stopping.set()
        self._rings.put(None)
        with self._running:  # a thread that has not begun yet finds that it is to stop
            pass

    def __del__(self) -> None:
        if hasattr(self, "_rings"):  # else an exception broke into its making
            self._rings.put(None)


def _run(rings: _Rings, stopping: _Stop, running: threading.Lock) -> None:
    """Work; while it waits it has nothing of the worker's owner."""
    with running:
        while not stopping.is_set():
            work = rings.get()
            if work is None:
                return
            if not stopping.is_set():
                work()
            del work
