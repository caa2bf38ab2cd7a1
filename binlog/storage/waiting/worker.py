"""A worker thread that runs one function each time it is notified.

Facts relied on:
- `threading.Thread.start` waits in Python for the thread to begin, and an exception of a signal handler during that
  wait may leave a lock locked that the thread needs.  `start_thread` waits for a lock of C that nobody needs after it.
- `queue.SimpleQueue.put` is one call too, and a finalizer may make it.
- Signal handlers run in the main thread alone, so none interrupts the work.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue

from binlog.errors import StateError

_Jobs = SimpleQueue[Callable[[], None] | None]

_BEGIN_SECONDS = 1.0


def start_thread(run: Callable[[], None]) -> int:
    """Start a daemon thread, wait until it has begun, and return its ident.  Raises: RuntimeError if none can be made.

    Python 3.11.2 gets a segmentation fault if a thread begins while the interpreter ends.  The wait has a limit,
    because a thread that a finalizer starts at that time never begins.
    """
    begun = threading.Lock()
    begun.acquire()

    def begin() -> None:
        begun.release()
        run()

    ident = _thread.start_new_thread(begin, ())
    begun.acquire(timeout=_BEGIN_SECONDS)
    return ident


class _StopSignal:
    """A flag that says that the worker must stop.

    A `threading.Event` stays locked if a signal handler raises within its `set`.
    """

    def __init__(self) -> None:
        self._notices: SimpleQueue[None] = SimpleQueue()
        self._is_set = False

    def set(self) -> None:
        """Set the flag, for good."""
        self._is_set = True
        self._notices.put(None)

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait for the flag, in the worker's thread, up to a number of seconds; return whether it is set."""
        if not self._is_set:
            with suppress(Empty):
                self._notices.get(timeout=seconds)
        return self._is_set


class Worker:
    """A thread that works when it is notified.

    It is a daemon thread.  While it waits it has no reference to its owner, so the owner can be freed.

    is_notified: whether `notify_once` has notified it.  The work sets this to False before it checks for things to do.
    Both happen under the owner's guard, so no notice is lost.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        """work: the function that the thread calls once for one or several notices.  It must not raise."""
        self._work = work
        self._jobs: _Jobs = SimpleQueue()  # holds the function, and so the owner, only until the work is done
        self._running = threading.Lock()  # held by the thread
        self.stopping = _StopSignal()
        self.is_notified = False
        self.ident = 0

    def start(self) -> None:
        """Start the thread, as the last step of opening the owner.  Raises: StateError if no thread can be made."""
        try:
            self.ident = start_thread(partial(_run, self._jobs, self.stopping, self._running))
        except RuntimeError as error:
            raise StateError(f"this process can start no more threads: {error}") from error

    def notify(self) -> None:
        """Make the thread work.  A signal handler can only run before or after this step."""
        if self._jobs.empty():  # else a notice is pending
            self._jobs.put(self._work)

    def notify_once(self) -> None:
        """Notify the thread, unless it was notified since the work last began.  The caller holds the owner's guard."""
        if not self.is_notified:
            self.notify()
            self.is_notified = True  # after the notice: an exception between the two must not lose it

    def pause(self, seconds: float) -> None:
        """Wait, in the worker's thread, for the next notice, for `stop`, or for a number of seconds."""
        with suppress(Empty):
            self._jobs.get(timeout=seconds)

    def is_own_thread(self) -> bool:
        """Return whether the caller runs in the worker's thread."""
        return self.ident == threading.get_ident()

    def stop(self) -> None:
        """Stop the thread, and wait until it has ended.  May be called again."""
        self.stopping.set()
        self._jobs.put(None)
        with self._running:  # a thread that has not begun yet will find the flag set
            pass

    def __del__(self) -> None:
        if hasattr(self, "_jobs"):  # an exception can end `__init__` before that
            self._jobs.put(None)


def _run(jobs: _Jobs, stopping: _StopSignal, running: threading.Lock) -> None:
    """Run the worker's loop.  It must have no reference to the owner while it waits."""
    with running:
        while not stopping.is_set():
            work = jobs.get()
            if work is None:
                return
            if not stopping.is_set():
                work()
            del work
