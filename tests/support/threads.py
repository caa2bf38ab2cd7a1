"""Running several things at once, in threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def at_once(*works: Callable[[], object]) -> None:
    """Run each in a thread, all at once; the first thing that one of them raised is raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(work) for work in works]:
            future.result()
