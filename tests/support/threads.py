"""Running several functions at once, in threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def at_once(*works: Callable[[], object]) -> None:
    """Run each function in a thread, all at once; raise the first error."""
    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(work) for work in works]:
            future.result()
