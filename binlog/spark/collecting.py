"""Sparing Python's garbage collector what a task has no use for."""

from __future__ import annotations

import gc
import itertools

_calls = itertools.count()


def spare_collections() -> None:
    """Tell Python's garbage collector to leave alone what is there.

    After each task a Python worker collects garbage, and walks every object of every module that was imported: some
    30 ms.  The first calls of a process only, so that no task's own objects pile up.
    """
    if next(_calls) < 3:
        gc.freeze()
