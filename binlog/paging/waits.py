"""Waiting for a condition that an interrupted change of another thread may end without telling."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# A change that an exception leaves half done poisons the paging, and wakes no thread: those that wait look so often.
LOOK_SECONDS = 1.0


def wait_until(condition: threading.Condition, is_over: Callable[[], object], timeout: float | None = None) -> None:
    """Wait until it is over, or for so many seconds; the condition's lock is held."""
    end = None if timeout is None else time.monotonic() + timeout
    while not is_over():
        seconds = LOOK_SECONDS if end is None else min(LOOK_SECONDS, end - time.monotonic())
        if seconds <= 0:
            return
        condition.wait(seconds)
