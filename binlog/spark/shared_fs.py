"""Wait for files that another machine wrote to become visible on a shared file system.

Facts relied on:

- nfs(5), "Data and metadata coherence": data that a client wrote reaches the server when the client syncs or closes the
  file.  An open asks the server again.  Directory entries, present or absent, are cached for at most a minute.
- A writer syncs records of Mode.FLUSH after at most half a second by default (binlog.Background).
- random(4): all processes under one kernel read the same boot id, in containers too.
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
_POLL_SECONDS = 0.1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_machine() -> str:
    """Return a text that identifies this boot of this machine."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def retry_until_visible(attempt: Callable[[], T], planned_on: str) -> T:
    """Return the result of `attempt`, which opens something.  planned_on: `this_machine()` of the planner.

    If the planner was another machine, retries for at most a minute while the attempt raises NotFoundError or
    ValueError, because this machine may not see all of the data yet.
    Raises: the error of the last attempt.
    """
    late = _clock(planned_on)
    while True:
        try:
            return attempt()
        except (NotFoundError, ValueError):
            if late():
                raise
        time.sleep(_POLL_SECONDS)


def wait_until_visible(path: str, made_on: str, *, size: int) -> bool:
    """Return whether a file has at least `size` bytes.  made_on: `this_machine()` of its writer.

    If the writer was on another machine, waits for at most a minute.
    """
    late = _clock(made_on)
    while not _has(path, size):
        if late():
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _has(path: str, size: int) -> bool:
    try:
        return os.stat(path).st_size >= size
    except (FileNotFoundError, NotADirectoryError):
        return False


def _clock(machine: str) -> Callable[[], bool]:
    """Return a function that says whether to stop waiting for data of a machine; at once, if that is this one."""
    deadline = time.monotonic() + (0 if machine == this_machine() else _SECONDS_MAX)
    return lambda: time.monotonic() >= deadline
