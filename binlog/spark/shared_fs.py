"""Finding what another machine knows of, whose view of a shared file system may be ahead of this one's.

Facts relied on:

- nfs(5), "Data and metadata coherence": what a client wrote reaches the server when it is synced, or its file closed;
  an open asks the server anew; and what names are in a directory, or are not, is kept for a minute at most.
- A writer syncs records of Mode.FLUSH after half a second at most, unless told otherwise (binlog.Background).
- random(4): all processes under one kernel, in whatever container, read the same boot id.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from binlog.errors import NotFoundError

T = TypeVar("T")

_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_machine() -> str:
    """A text that is another one on every machine, and after every boot."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def retry_until_visible(attempt: Callable[[], T], planned_on: str) -> T:
    """What an attempt gives to open something.  planned_on: `this_machine()` where it was seen last.

    Blocks: where that was elsewhere, for a minute at most, until this machine sees as much of it: until then attempts
    raise NotFoundError or ValueError.
    Raises: what the last attempt does.
    """
    late = _clock(planned_on)
    while True:
        try:
            return attempt()
        except (NotFoundError, ValueError):
            if late():
                raise
        time.sleep(_LOOK_SECONDS)


def wait_until_visible(path: str, made_on: str, *, size: int) -> bool:
    """Whether a file is there, of so many bytes at least.  made_on: `this_machine()` where it was made.

    Blocks: where that was elsewhere, for a minute at most, until this machine sees it.
    """
    late = _clock(made_on)
    while not _has(path, size):
        if late():
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _has(path: str, size: int) -> bool:
    try:
        return os.stat(path).st_size >= size
    except (FileNotFoundError, NotADirectoryError):
        return False


def _clock(machine: str) -> Callable[[], bool]:
    """Tells whether it is too late to wait for what a machine knows of; at once, where that is this one."""
    deadline = time.monotonic() + (0 if machine == this_machine() else _SECONDS_MAX)
    return lambda: time.monotonic() >= deadline
