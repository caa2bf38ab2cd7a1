"""A worker thread that runs one function each time it is notified.

Facts relied on:
- `threading.Thread.start` waits in Python for the thread to begin, and an exception of a signal handler during that
  wait may leave a lock locked that the thread needs.  `_thread.start_new_thread` is one call.
- Python 3.11.2 gets a segmentation fault if a thread begins while the interpreter ends.  So `start_thread` and
  `Worker.stop` wait until the thread has begun.
- `queue.SimpleQueue.put` is one call too, and a finalizer may make it.
- Signal handlers run in the main thread alone, so none interrupts the work.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from binlog.errors import StateError

_Jobs = SimpleQueue[Callable[[], None] | None]

# Limits the wait for a thread to begin: one that a finalizer starts when the interpreter ends never does.
_BEGIN_SECONDS = 1.0


def start_thread(run: Callable[[], None]) -> None:
    """Start a daemon thread, and wait until it has begun.  Raises: RuntimeError if none can be made."""
    begun = _Flag()
    _thread.start_new_thread(_begin, (begun, run))
    begun.wait(_BEGIN_SECONDS)


def _begin(begun: _Flag, run: Callable[..., None], *arguments: object) -> None:
    begun.set()
    run(*arguments)


class _Flag:
    """A flag that is set once, and for which threads wait.

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
        """Wait for the flag, up to a number of seconds; return whether it is set."""
        if not self._is_set:
            with suppress(Empty):
                self._notices.get(timeout=seconds)
                self._notices.put(None)  # for another thread that waits
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
        self._begun: _Flag | None = None
        self.stopping = _Flag()
        self.is_notified = False
        self.ident = 0

    def start(self) -> None:
        """Start the thread, as the last step of opening the owner.  Raises: StateError if no thread can be made."""
        self._begun = begun = _Flag()
        try:
            self.ident = _thread.start_new_thread(_begin, (begun, _run, self._jobs, self.stopping, self._running))
        except RuntimeError as error:
            self._begun = None
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
        if self._begun is not None:
            self._begun.wait(_BEGIN_SECONDS)
        with self._running:  # if the thread does not hold it yet, it finds the flag set
            pass

    def __del__(self) -> None:
        if hasattr(self, "_jobs"):  # an exception can end `__init__` before that
            self._jobs.put(None)


def _run(jobs: _Jobs, stopping: _Flag, running: threading.Lock) -> None:
    """Run the worker's loop.  It must have no reference to the owner while it waits."""
    with running:
        while not stopping.is_set():
            work = jobs.get()
            if work is None:
                return
            if not stopping.is_set():
                work()
            del work
