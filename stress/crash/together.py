"""Running several things at once, in threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


def at_once(*works: Callable[[], None]) -> None:
    """Run each in a thread, all at once; the first thing that one of them raised is raised."""
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told below, in the thread that can tell it
            failures.append(error)

    threads = [Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
