"""Free memory, prepared so that no measurement pays for getting it from a host.

A virtual machine may return memory that was free for some seconds to its host (Linux's "free page reporting").  The
process that touches it next waits for the host, once for each page: one second of the processor for each gigabyte here;
and how much of it a job meets depends on the jobs before it.
"""

from __future__ import annotations

import mmap
import os

_LEFT_BYTES = 256 << 20
"""Left free for others: the kernel would otherwise evict cached pages."""


def touch_free_memory(size: int) -> None:
    """Touch `size` bytes of free memory, or nearly all there is, and free them again."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    touched = min(size, free - _LEFT_BYTES)
    if touched > 0:
        mmap.mmap(-1, touched, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()
