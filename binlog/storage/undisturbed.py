"""Steps that no signal handler breaks into: the main thread has another one do them, and waits.

Facts relied on:
- Python runs signal handlers in the main thread alone (signal, "Execution of Python signal handlers"): what one raises,
  as Ctrl-C does, comes out of whatever that thread is doing.
- The thread stays, for handing a step over takes a fifth of the time that starting a thread takes.
- threading.py waits in Python for a thread to end.  Where what a handler raises comes out of `join`, the thread counts
  as ended, though it goes on, and the interpreter does not wait for it any more.  So here a lock is waited for, which
  is one step; to begin, see `step_thread.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar, TypeVarTuple

from binlog.storage.step_thread import StepThread

_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")
_LOOK_SECONDS = 1.0


class Step:
    """What is to be done, what came of it, and a lock that is let go of then.  begun: held by who does it, for good."""

    __slots__ = ("begun", "done", "error", "result", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.begun = threading.Lock()
        self.done = threading.Lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None

    def do(self) -> None:
        """Do it, but where somebody has begun to."""
        if self.begun.acquire(blocking=False):
            self._do()

    def _do(self) -> None:
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001 - it is raised where this is waited for
            self.error = error
        self.done.release()


class Undisturbed:
    """Does steps, in the order in which the main thread gives them; other threads do their own."""

    def __init__(self, name: str) -> None:
        self._steps: SimpleQueue[Step | None] = SimpleQueue()
        self._thread = StepThread(self._run, name, daemon=True)
        self._thread.start()

    def do(self, work: Callable[[*_Arguments], _T], *arguments: *_Arguments) -> _T:
        """Do it, and give what it gives.  Where a handler raises, it is done all the same.  Raises: what it raises."""
        if threading.current_thread() is not threading.main_thread():
            return work(*arguments)
        step = Step(partial(work, *arguments))
        self._steps.put(step)
        while not step.done.acquire(timeout=_LOOK_SECONDS):
            if not self._thread.is_alive():
                step.do()  # the thread was stopped before it came to this
        if step.error is not None:
            raise step.error
        result: _T = step.result
        return result

    def stop(self) -> None:
        """End the thread, behind all steps that it was given.  It may be the one that calls this."""
        self._steps.put(None)

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            step.do()
            del step  # what it leads to is not kept until the next one comes


def uninterrupted(work: Callable[[], _T], *, outlives_main: bool = False) -> _T:
    """Do one step, and give what it gives: the main thread has a new one do it, and waits.

    Where a handler raises, all of it is done all the same, and nobody hears what came of it.
    outlives_main: the interpreter does not end before it is done.
    Raises: what it raises.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    return in_another_thread(Step(work), daemon=not outlives_main)  # type: ignore[no-any-return]


def in_another_thread(step: Step, *, daemon: bool) -> Any:
    """Have a new thread do a step, wait, and give what it gives.  Raises: what it raises."""
    thread = StepThread(step.do, "binlog step", daemon=daemon)
    try:
        thread.start()
    except RuntimeError:
        if thread in threading.enumerate() or step.begun.locked():
            raise  # of a handler
        step.do()  # the interpreter ends, and makes no more threads
    step.done.acquire()
    if step.error is not None:
        raise step.error
    return step.result
