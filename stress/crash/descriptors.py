"""Which descriptors a process has open, to tell those that were forgotten."""

from __future__ import annotations

import os
from contextlib import suppress


def open_descriptors() -> dict[str, str]:
    """What each is of."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of this listing
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def left_open(before: dict[str, str]) -> list[str]:
    """What is wrong, where there are more than before."""
    now = open_descriptors()
    if len(now) <= len(before):
        return []
    new = sorted(path for name, path in now.items() if before.get(name) != path)
    return [f"{len(now) - len(before)} descriptors were left open: {', '.join(new)}"]
