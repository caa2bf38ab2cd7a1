"""Work that no signal handler breaks into: handlers run in the main thread alone (signal, Python's documentation)."""

from __future__ import annotations

import threading
from collections.abc import Callable


def uninterrupted(work: Callable[[], None]) -> None:
    """Do it in a thread of its own, and wait for it; what a handler raises ends the wait, and not the work.

    Raises: what the work raises.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - who waits is told
            raised.append(error)

    thread = threading.Thread(target=run, name="binlog journal end")
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends, and makes no more threads
        run()
    else:
        thread.join()
    if raised:
        raise raised[0]
