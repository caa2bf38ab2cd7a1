"""What a process holds, and what a log takes beside its files: the smallest of several looks within a second.

At a look a process may have opened a file for a moment, or be collecting garbage; what it keeps is there at each.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import binlog

_LOOKS = 10
_BETWEEN_SECONDS = 0.1


@dataclass(frozen=True)
class Holding:
    """memory_kib: of the process, resident.  descriptors: open ones."""

    memory_kib: int
    descriptors: int


def holdings(pids: Mapping[str, int]) -> dict[str, Holding]:
    """What each of these processes holds, by its name."""
    looks: dict[str, list[Holding]] = {name: [] for name in pids}
    for _ in range(_LOOKS):
        for name, pid in pids.items():
            looks[name].append(_look(pid))
        time.sleep(_BETWEEN_SECONDS)
    return {
        name: Holding(min(look.memory_kib for look in seen), min(look.descriptors for look in seen))
        for name, seen in looks.items()
    }


def shared_memory_bytes(log: Path) -> int:
    """What the log's staging area takes."""
    return binlog.stat(log).memory_bytes or 0


def _look(pid: int) -> Holding:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    resident = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    if resident is None:
        raise ProcessLookupError(f"process {pid} has ended")
    return Holding(int(resident[1]), len(os.listdir(f"/proc/{pid}/fd")))
