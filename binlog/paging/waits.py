"""Waiting under a monitor, for what an interrupted change of another thread may bring about without telling."""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.storage.green import GREEN_SECONDS, green_sleep
from binlog.storage.native import Monitor

# A change that an exception leaves half done poisons the paging, and wakes no thread: those that wait look so often.
LOOK_SECONDS = 1.0


def wait_for_notice(monitor: Monitor, seconds: float | None = None) -> None:
    """Give the monitor away until a notice, or for so long at most; it may return early.

    If threads are greenlets, the others run meanwhile, and this looks again soon: nothing tells a greenlet of a notice.
    """
    sleep = green_sleep()
    if sleep is None:
        monitor.wait(-1 if seconds is None else seconds)
        return
    monitor.__exit__(None, None, None)
    try:
        sleep(GREEN_SECONDS if seconds is None else min(seconds, GREEN_SECONDS))
    finally:
        monitor.__enter__()


def wait_until(monitor: Monitor, is_over: Callable[[], object], timeout: float | None = None) -> None:
    """Wait until it is over, or for so many seconds; the monitor is held."""
    end = None if timeout is None else time.monotonic() + timeout
    while not is_over():
        seconds = LOOK_SECONDS if end is None else min(LOOK_SECONDS, end - time.monotonic())
        if seconds <= 0:
            return
        wait_for_notice(monitor, seconds)
