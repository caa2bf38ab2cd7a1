"""The cyclic garbage collector, held back while very many objects are made of which none leads to itself.

It goes through all objects each time a quarter more are there than the last time, which while a million records are
made takes longer than making them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """For the block, where it runs at all.  It is the whole process's, and goes on with the first block that ends."""
    was_running = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was_running:
            gc.enable()
