"""Waiting for a condition that an interrupted change of another thread may end without telling."""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.storage.native import Monitor

# A change that an exception leaves half done poisons the paging, and wakes no thread: those that wait look so often.
LOOK_SECONDS = 1.0


def wait_until(monitor: Monitor, is_over: Callable[[], object], timeout: float | None = None) -> None:
    """Wait until it is over, or for so many seconds; the monitor is held."""
    end = None if timeout is None else time.monotonic() + timeout
    while not is_over():
        seconds = LOOK_SECONDS if end is None else min(LOOK_SECONDS, end - time.monotonic())
        if seconds <= 0:
            return
        monitor.wait(seconds)
