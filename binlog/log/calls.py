"""The calls of a reader that are in progress, so that it can be closed in the middle of one."""

from __future__ import annotations

import threading
from typing import Protocol

from binlog.errors import ClosedError
from binlog.storage.native import fork_generation

_WAKE_SECONDS = 0.01


class _Closable(Protocol):
    def wake(self) -> None:
        """End a wait that is in progress."""

    def close(self) -> None:
        """Give everything back."""


class Calls:
    """A context for each call, which one thread at a time is in, and the closing of what the calls use.

    Descriptors and mappings are given back only when no call is in progress: a number that was closed may lead to
    another file by the time that the call reads from it.
    """

    def __init__(self, used: _Closable) -> None:
        self._used = used
        self._start()
        self.closed = False

    def _start(self) -> None:
        self._generation = fork_generation()
        self._mutex = threading.RLock()
        self._depth = 0

    def __enter__(self) -> None:
        """Raises: ClosedError."""
        if self._generation != fork_generation():
            self._start()  # a forked child does not have the thread that may have been in a call
        self._mutex.acquire()
        self._depth += 1
        if self.closed:
            self.__exit__()
            raise ClosedError("the reader is closed")

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self.closed and not self._depth:
            self._used.close()
        self._mutex.release()

    def close(self) -> None:
        """Close, once the call of another thread has ended, which is woken; or with the end of this thread's own."""
        self.closed = True
        if self._generation != fork_generation():
            self._start()
        while not self._mutex.acquire(timeout=_WAKE_SECONDS):
            self._used.wake()
        try:
            if not self._depth:
                self._used.close()
        finally:
            self._mutex.release()
