"""Doing several steps of which all must be done, where no signal handler comes between two of them.

Facts relied on:
- Python runs signal handlers in the main thread alone (signal, "Execution of Python signal handlers"): what one raises,
  as Ctrl-C does, comes out of whatever that thread is doing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def uninterrupted(work: Callable[[], _T]) -> _T:
    """Do it, and give what it gives: the main thread has another one do it, and waits.

    Where a handler raises, all of it is done all the same, and nobody hears what came of it.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done: list[_T] = []
    raised: list[BaseException] = []

    def do() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where this waits
            raised.append(error)

    thread = threading.Thread(target=do, name="binlog paging step", daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return done[0]
