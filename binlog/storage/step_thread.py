"""A thread whose start a signal handler may break into.

Facts relied on:
- `threading.Thread.start` waits for an event, in Python: with the event's lock held it makes a lock of its own, lets go
  of the first, and takes it again.  Where a handler raises in between, the first may be let go of twice, and then a
  RuntimeError comes out (`release unlocked lock`) in place of what the handler raised; or never, and then the thread
  waits for it without end before it does anything, and the interpreter, as it ends, for the thread.
- `Lock.acquire` is one step.  Who is broken off in it has taken nothing that the thread needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class _Begun(threading.Event):
    """That the thread has begun; waited for once."""

    def __init__(self) -> None:
        super().__init__()
        self._has_not = threading.Lock()
        self._has_not.acquire()

    def set(self) -> None:
        """See above."""
        super().set()
        self._has_not.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Return once it has."""
        return self._has_not.acquire()


class StepThread(threading.Thread):
    """Where a handler raises in its start, that comes out, and the thread runs to its end, or not at all."""

    def __init__(self, work: Callable[[], object], name: str, *, daemon: bool) -> None:
        super().__init__(target=work, name=name, daemon=daemon)
        self._started = _Begun()
