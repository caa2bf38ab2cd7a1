"""How long a sync takes, as a log makes it: of a file whose space is allocated and written before."""

from __future__ import annotations

import statistics
import time

from binlog.doctor.findings import Finding, Verdict
from binlog.storage.directory import Directory
from binlog.storage.files import sync, write_at

_SUBJECT = "time of a sync"
_COUNT = 50
_BYTES = 4096
# No disk stores 4 KiB in less.
_SUSPICIOUS_US = 20
_SLOW_US = 10_000


def examine_sync(folder: Directory) -> Finding:
    """Write and sync 4 KiB fifty times in a directory, and return the finding.  Raises: FullError, PoisonedError."""
    times_us = []
    with folder.created("time") as file:
        write_at(file.content, bytes(_COUNT * _BYTES), 0, file.path)
        sync(file.content, file.path)
        for number in range(_COUNT):
            start = time.perf_counter_ns()
            write_at(file.content, b"b" * _BYTES, number * _BYTES, file.path)
            sync(file.content, file.path)
            times_us.append((time.perf_counter_ns() - start) / 1000)
    return finding(statistics.median(times_us), max(times_us))


def finding(median_us: float, worst_us: float) -> Finding:
    """Return the finding for the median and the worst time of a sync, in microseconds."""
    value = f"median {median_us:.0f} us, worst {worst_us:.0f} us, of {_COUNT} syncs of 4 KiB"
    if median_us < _SUSPICIOUS_US:
        reason = "no disk is that fast: the disk, or a virtual machine's host, may not honour a sync"
        remedy = "check the write cache of the disk, and the cache mode of the virtual disk"
        return Finding("directory", _SUBJECT, Verdict.DOUBTFUL, value, reason, remedy)
    if median_us > _SLOW_US:
        reason = "each append in Mode.SYNC takes at least as long; many writers share one sync"
        remedy = "append_many, Mode.FLUSH, or a disk with a protected write cache"
        return Finding("directory", _SUBJECT, Verdict.SLOW, value, reason, remedy)
    return Finding("directory", _SUBJECT, Verdict.OK, value)
