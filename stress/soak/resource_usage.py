"""Resource usage of processes and of a log: the smallest of several samples within a second.

A single sample may find a file that is open for a moment, or garbage that is not collected yet; resources that stay are
in all of them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import binlog

_SAMPLE_COUNT = 10
_BETWEEN_SECONDS = 0.1


@dataclass(frozen=True)
class ResourceUsage:
    """The usage of a process.  memory_kib: resident.  descriptors: open ones."""

    memory_kib: int
    descriptors: int


def resource_usage(pids: Mapping[str, int]) -> dict[str, ResourceUsage]:
    """Return the usage of each process, by name."""
    samples: dict[str, list[ResourceUsage]] = {name: [] for name in pids}
    for _ in range(_SAMPLE_COUNT):
        for name, pid in pids.items():
            samples[name].append(_sample(pid))
        time.sleep(_BETWEEN_SECONDS)
    return {
        name: ResourceUsage(min(sample.memory_kib for sample in seen), min(sample.descriptors for sample in seen))
        for name, seen in samples.items()
    }


def shared_memory_bytes(log: Path) -> int:
    """Return the size of the log's staging area."""
    return binlog.stat(log).memory_bytes or 0


def _sample(pid: int) -> ResourceUsage:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    resident = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    if resident is None:
        raise ProcessLookupError(f"process {pid} has ended")
    return ResourceUsage(int(resident[1]), len(os.listdir(f"/proc/{pid}/fd")))
