"""What a process does, as the kernel tells it."""

from __future__ import annotations

from pathlib import Path


def state_of(pid: int) -> str:
    """The letter of its first thread (proc(5), stat): R runs, S waits, t is stopped by who traces it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
