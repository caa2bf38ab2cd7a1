"""How many descriptors this process has, to compare with later."""

from __future__ import annotations

import gc
import os


def count_descriptors() -> int:
    """How many are open."""
    return len(os.listdir("/proc/self/fd"))


def descriptors_before() -> int:
    """The same, once what earlier tests dropped is gone: it must not go between two counts.

    Who counts collects garbage before each count: not among what is there now, and stays, such as what Spark imports.
    """
    gc.collect()
    gc.freeze()
    return count_descriptors()
