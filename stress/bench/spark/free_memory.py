"""Free memory that a machine has to find first is nobody's to pay for.

A virtual machine may give what has been free for some seconds back to its host (Linux's "free page reporting"), and
whoever touches it next waits for the host, once for each page: a second of the processor for each gigabyte, here, and
whether a job meets much of it depends on what ran before it and when.
"""

from __future__ import annotations

import mmap
import os

_LEFT_BYTES = 256 << 20
"""Of the free memory, for others: the kernel would take away from what is cached in its place."""


def touch_free_memory(size: int) -> None:
    """Touch as many bytes of free memory, or nearly all there are; they are free again then."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    touched = min(size, free - _LEFT_BYTES)
    if touched > 0:
        mmap.mmap(-1, touched, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()
