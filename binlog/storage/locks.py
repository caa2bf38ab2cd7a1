"""The lock that decides: exclusive, over a whole open file, freed by the kernel when its holder dies.

See native/lock.c for the facts.  `unlock` is to be the first call of a
`finally` whose `try` holds the call of `lock`: no Python runs between a C call
and the one after it, so Ctrl-C cannot leave the lock behind.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from binlog.errors import BusyError
from binlog.storage.failures import failure
from binlog.storage.native import lib

_TRY_SECONDS_FIRST = 0.0005
_TRY_SECONDS_MOST = 0.02


def lock(fd: int, path: str, timeout: float | None = None) -> None:
    """Take the lock, waiting `timeout` seconds at most, or for ever.

    Raises: BusyError, which names the holder where it can be known.
    """
    if timeout is None:
        while (result := lib.binlog_lock(fd)) == -errno.EINTR:
            pass  # signal handlers have run on the way back
    else:
        result = _try_until(fd, time.monotonic() + timeout)
    if result == 0:
        return
    if result in (-errno.EAGAIN, -errno.EACCES):
        held_by = holder(fd)
        raise BusyError(f"{path} is locked by {held_by or 'another open file'}", holder=held_by)
    raise failure(-result, path, "locking")


def _try_until(fd: int, deadline: float) -> int:
    pause = _TRY_SECONDS_FIRST
    while (result := lib.binlog_try_lock(fd)) in (-errno.EAGAIN, -errno.EACCES, -errno.EINTR):
        if result == -errno.EINTR:
            continue  # nobody has said that it is taken
        left = deadline - time.monotonic()
        if left <= 0:
            break
        # F_OFD_SETLKW takes no time-out, and an alarm signal is not ours to use: so ask again, less and less often.
        time.sleep(min(pause, left))
        pause = min(pause * 2, _TRY_SECONDS_MOST)
    return result


def try_lock(fd: int) -> bool:
    """Take the lock if nobody has it; whether it was taken."""
    return bool(lib.binlog_try_lock(fd) == 0)


unlock = lib.binlog_unlock


def is_locked(fd: int) -> bool:
    """Whether anybody else holds a lock on the file; whoever opened it, to read or to write, may ask."""
    return bool(lib.binlog_lock_owner(fd) != 0)


def holder(fd: int) -> str | None:
    """A text that names the process with a lock on the file, or None where none can be found."""
    owner = lib.binlog_lock_owner(fd)
    if owner == 0:
        return None
    if owner > 0:
        return f"process {owner}"
    return open_holder(fd)


def open_holder(fd: int) -> str | None:
    """As `holder`, of a lock that belongs to an open file description, or None where none can be found."""
    # The kernel names no process for it, but lists it under the descriptor.
    status = os.fstat(fd)
    try:
        for info in Path("/proc").glob("[0-9]*/fdinfo/*"):
            if _locks(info, status):
                return f"process {info.parts[2]}"
    except OSError:
        return None  # no descriptor left to look with
    return None


def _locks(info: Path, status: os.stat_result) -> bool:
    try:
        there = os.stat(info.parents[1] / "fd" / info.name)
        return (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino) and "lock:" in info.read_text()
    except OSError:
        return False  # gone, or another user's
