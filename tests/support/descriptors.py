"""The number of open descriptors of this process, for comparison."""

from __future__ import annotations

import gc
import os


def count_descriptors() -> int:
    """Return the number of open descriptors."""
    return len(os.listdir("/proc/self/fd"))


def descriptors_before() -> int:
    """Return the number after garbage of earlier tests is collected, because it must not be collected between two
    counts.

    Collect garbage again before each later count.  Present objects that stay, such as Spark's modules, are excluded.
    """
    gc.collect()
    gc.freeze()
    return count_descriptors()
