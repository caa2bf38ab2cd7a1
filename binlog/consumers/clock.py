"""Group time: nanoseconds that no setting of the wall clock moves, and that continue after a reboot.

Facts relied on:
- clock_gettime(2): CLOCK_BOOTTIME counts from the boot on, also during suspend, and no process can set it.
- time_namespaces(7): a process in a time namespace sees the clock with an offset, which /proc/self/timens_offsets has.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

from binlog.storage.boot import boot_id

_OFFSETS = Path("/proc/self/timens_offsets")


@cache
def _namespace_offset_ns() -> int:
    try:
        lines = _OFFSETS.read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        name, seconds, nanoseconds = line.split()
        if name in ("boottime", "7"):
            return int(seconds) * 10**9 + int(nanoseconds)
    return 0


def boot_time_ns() -> int:
    """Return the nanoseconds since the boot, the same in all time namespaces."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - _namespace_offset_ns()


def clock_values(last_ns: int) -> dict[str, Any]:
    """Return the clock of this boot: group time continues at `last_ns`, or at the wall clock if that is later."""
    return {"boot": boot_id().hex(), "offset_ns": max(last_ns, time.time_ns()) - boot_time_ns()}


def is_this_boots(clock: dict[str, Any]) -> bool:
    """Return whether a group's clock was set in this boot."""
    return clock.get("boot") == boot_id().hex()


def group_time_ns(clock: dict[str, Any], last_ns: int) -> int:
    """Return the group time now; `last_ns` if the group's clock is of another boot."""
    return max(boot_time_ns() + int(clock["offset_ns"]), last_ns) if is_this_boots(clock) else last_ns
