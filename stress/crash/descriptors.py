"""The open descriptors of this process, to find leaked ones."""

from __future__ import annotations

import os
from contextlib import suppress


def open_descriptors() -> dict[str, str]:
    """Return the path of each open descriptor, by number."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of this listing
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def left_open(before: dict[str, str]) -> list[str]:
    """Return the violation if more descriptors are open than before."""
    now = open_descriptors()
    if len(now) <= len(before):
        return []
    new = sorted(path for name, path in now.items() if before.get(name) != path)
    return [f"{len(now) - len(before)} descriptors were left open: {', '.join(new)}"]
