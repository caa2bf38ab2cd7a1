"""What a process was told, kept where its death cannot take it: in memory that it shares with its parent.

Writing to shared memory makes no system call, so a trace of the process is a trace of the log alone.
"""

from __future__ import annotations

import mmap
import struct

from binlog import Ref

_ENTRY = struct.Struct("=IQI")
_COUNT = struct.Struct("=I")


class Acknowledged:
    """A list of (ref, job) that a forked child adds to and its parent reads."""

    def __init__(self, room: int = 1 << 16) -> None:
        self._memory = mmap.mmap(-1, room)

    def add(self, ref: Ref, job: int) -> None:
        """Note that the job was acknowledged, to lie at the ref."""
        (count,) = _COUNT.unpack_from(self._memory, 0)
        _ENTRY.pack_into(self._memory, _COUNT.size + count * _ENTRY.size, ref.number, ref.offset, job)
        _COUNT.pack_into(self._memory, 0, count + 1)  # last: an entry counts only when it is whole

    def entries(self) -> list[tuple[Ref, int]]:
        """All that was noted."""
        (count,) = _COUNT.unpack_from(self._memory, 0)
        found = (_ENTRY.unpack_from(self._memory, _COUNT.size + index * _ENTRY.size) for index in range(count))
        return [(Ref(number, offset), job) for number, offset, job in found]
