"""A step of the main thread's that is kept where it hears of its end, and undone where a signal handler ends its wait.

Facts relied on:
- CPython runs handlers where a function begins, behind a call, and where a loop goes back (Python/ceval.c).  So none
  comes in between `except` and an attribute that is set next, and none between such a one and `return`.

Invariants:
- Who waits sets one of two flags by itself, not by a call: `is_left` first of all where anything was raised, `is_kept`
  last of all.  However many handlers raise one behind the other, it is one of these.
- The thread that did the step is there until either is set, and undoes it where that is `is_left`: no other thread has
  to be started for that, which one more handler could prevent.
- It looks again and again: to wake it would be a call, behind which a handler may raise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from binlog.errors import StateError
from binlog.storage.undisturbed import Step, in_another_thread

_T = TypeVar("_T")
_LOOK_SECONDS_MIN = 2e-5  # who waits has taken about as long to go on
_LOOK_SECONDS_MAX = 0.01


class Waiter:
    """Who waits for a step.  is_left: a handler raised meanwhile.  is_kept: it knows what came of it."""

    __slots__ = ("caller", "is_kept", "is_left")

    def __init__(self) -> None:
        self.caller = threading.get_ident()
        self.is_kept = False
        self.is_left = False

    def check(self) -> None:
        """Raises: StateError where nobody waits any more, and so nobody hears of that."""
        if self.is_left:
            raise StateError("a signal handler has ended the call")


class KeptOrUndone(Step, Generic[_T]):
    """It, to be used like this, and not by a function that does so, behind which a handler may raise:

    waiter = Waiter()
    step = KeptOrUndone(work, undo, waiter)
    try:
        result = step.result_of()
    except BaseException:
        waiter.is_left = True
        step.wait_until_undone()
        raise
    waiter.is_kept = True
    return result
    """

    __slots__ = ("_ended", "_is_here", "_undo", "_waiter")

    def __init__(self, work: Callable[[], _T], undo: Callable[[], object], waiter: Waiter) -> None:
        """work: leaves nothing where it raises.  undo: does nothing where it was done by somebody else meanwhile."""
        super().__init__(work)
        self._undo = undo
        self._waiter = waiter
        self._is_here = False
        self._ended = threading.Lock()
        self._ended.acquire()

    def result_of(self) -> _T:
        """Do it, and give what it gives.  Raises: what it raises."""
        if threading.current_thread() is not threading.main_thread():
            return self.work()  # type: ignore[no-any-return]
        result: _T = in_another_thread(self, daemon=True)
        return result

    def wait_until_undone(self) -> None:
        """Return once nothing of it is there.  Where a handler raises in this too, that is so a moment later."""
        if self.begun.acquire(blocking=False):
            return  # and so nobody will begin it
        if self._is_here:
            self._undo()
        else:
            self._ended.acquire()

    def _do(self) -> None:
        waiter = self._waiter
        if threading.get_ident() == waiter.caller:
            self._is_here = True  # there are no more threads
            super()._do()
            return
        try:
            super()._do()
            if self.error is None and self._is_left():
                self._undo()
        finally:
            self._ended.release()

    def _is_left(self) -> bool:
        """Return once that is told."""
        waiter, seconds = self._waiter, _LOOK_SECONDS_MIN
        while not (waiter.is_kept or waiter.is_left):
            time.sleep(seconds)
            seconds = min(2 * seconds, _LOOK_SECONDS_MAX)
        return waiter.is_left
