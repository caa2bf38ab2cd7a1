"""What a Python process of Spark's own is told, in which a task runs, or a source or sink is asked."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys

CORES = "BINLOG_SPARK_CORES"
"""In the environment of Java, and so of the process that plans a read: how many tasks run at once."""

# mallopt(3), malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# More than a task has at once of the runs of records that it reads, and the largest threshold for one mapping.
_KEPT_BYTES = 64 << 20
_MAPPED_BYTES = 32 << 20

_DAEMON = "pyspark.daemon"

_calls = itertools.count()


def settle_worker() -> None:
    """Let a worker do without what costs each task time and brings it nothing; any other process is left as it is.

    After each task, and after each look at a source or a sink, it collects garbage, and walks every object of every
    module that was imported, some 30 ms: so those are left alone.  The first calls of a process only, so that no task's
    own objects pile up.

    And glibc gives memory that is free back to the kernel at once, which clears it page by page when it is asked for
    again: half of the time of reading, in runs of a megabyte.  So up to 64 MiB are kept.
    """
    if not _is_worker():
        return
    call = next(_calls)
    if call < 3:
        gc.freeze()
    if call == 0:
        _keep_memory()


def _is_worker() -> bool:
    """Whether Spark made this process: all are children of one program, which goes on in them."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == _DAEMON


def _keep_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
