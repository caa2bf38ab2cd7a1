"""Group time: nanoseconds that no setting of the wall clock moves, and that continue after a reboot.

The first member after a boot records the boot's id, and the difference between group time and the time since the boot.

Facts relied on:
- clock_gettime(2): CLOCK_BOOTTIME counts from the boot on, also during suspend, and no process can set it.
- time_namespaces(7): a process in a time namespace sees the clock with an offset, which /proc/self/timens_offsets has.
"""

from __future__ import annotations

import time
from functools import cache
from time import CLOCK_BOOTTIME, clock_gettime_ns

from binlog.consumers.state.group_state import GroupState
from binlog.format.consumers.operation import Clock
from binlog.storage.boot import whole_boot_id

_OFFSETS = "/proc/self/timens_offsets"


@cache
def _namespace_offset_ns() -> int:
    try:
        with open(_OFFSETS) as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in lines:
        name, seconds, nanoseconds = line.split()
        if name in ("boottime", "7"):
            return int(seconds) * 10**9 + int(nanoseconds)
    return 0


class GroupClock:
    """The clock of a group, in this boot."""

    @property
    def boot(self) -> bytes:
        """The id of this boot."""
        return whole_boot_id()

    def since_boot_ns(self) -> int:
        """Return the nanoseconds since the boot, the same in all time namespaces."""
        return clock_gettime_ns(CLOCK_BOOTTIME) - _namespace_offset_ns()

    def wall_ns(self) -> int:
        """Return the wall clock: nanoseconds since 1970."""
        return time.time_ns()

    def is_set(self, state: GroupState) -> bool:
        """Return whether the group's clock was set in this boot."""
        clock = state.clock
        return clock is not None and clock.boot == self.boot

    def for_this_boot(self, state: GroupState) -> Clock:
        """Return the clock to set: group time continues, or jumps to the wall clock if that is later."""
        return Clock(self.boot, max(state.clock_ns, self.wall_ns()) - self.since_boot_ns())

    def now_ns(self, state: GroupState) -> int:
        """Return the group time now; that of the last operation if the clock is not set in this boot."""
        offset_ns, last_ns = state.clock_offset_ns(self.boot), state.clock_ns
        if offset_ns is None or (now_ns := self.since_boot_ns() + offset_ns) < last_ns:
            return last_ns
        return now_ns
