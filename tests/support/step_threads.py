"""The threads that do steps of calls, and may go on behind them where a signal handler raised."""

from __future__ import annotations

import threading
import time


def join_step_threads() -> None:
    """Return once none of them is there."""
    while steps := [thread for thread in threading.enumerate() if thread.name == "binlog step"]:
        for thread in steps:
            if thread.is_alive():
                thread.join()
        time.sleep(0)  # one that was made, and has not begun
