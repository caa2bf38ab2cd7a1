"""The lock that decides: exclusive, over a whole open file, freed by the kernel when its holder dies.

See native/shared/lock.c for the facts.  `unlock` is to be the first call of a
`finally` whose `try` holds the call of `lock`: no Python runs between a C call
and the one after it, so Ctrl-C cannot leave the lock behind.

A writer marks its thread with `hold` before `lock`, in the same `try`, and calls
`let_go` in place of `unlock`: which takes the mark away in the same call of C.

Whether anybody has a file open for writing, in whatever process or container of this kernel.

Facts relied on:
- fcntl(2), F_SETLEASE: a read lease is given, to a descriptor opened read-only, only where nobody has the file open for
  writing; to the file's owner, or with CAP_LEASE.
- fcntl(2), F_SETSIG: whoever opens the file for writing while the lease is held has us sent a signal, by default SIGIO,
  which would end the process; SIGURG is ignored by default (signal(7)).
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from pathlib import Path

from binlog.errors import AccessError, BusyError
from binlog.storage.directory import Directory
from binlog.storage.failures import failure
from binlog.storage.native import lib

_SECONDS_MAX = 10**9


def lock(fd: int, path: str, timeout: float | None = None) -> None:
    """Take the lock, waiting `timeout` seconds at most, or for ever.

    Raises: BusyError, which names the holder where it can be known.
    """
    # After a signal its handlers have run on the way back.
    if timeout is None:
        while (result := lib.binlog_lock(fd)) == -errno.EINTR:
            pass
    else:
        deadline = time.monotonic() + min(timeout, _SECONDS_MAX)
        while (result := lib.binlog_lock_within(fd, _nanoseconds_to(deadline))) == -errno.EINTR:
            pass
    if result == 0:
        return
    if result in (-errno.EAGAIN, -errno.EACCES):
        raise busy(fd, path)
    raise failure(-result, path, "locking")


def busy(fd: int, path: str) -> BusyError:
    """The error for a lock that stayed taken, with its holder where that can be known."""
    held_by = holder(fd)
    return BusyError(f"{path} is locked by {held_by or 'another open file'}", holder=held_by)


def _nanoseconds_to(deadline: float) -> int:
    return int(max(deadline - time.monotonic(), 0) * 1e9)


def try_lock(fd: int) -> bool:
    """Take the lock if nobody has it; whether it was taken."""
    return bool(lib.binlog_try_lock(fd) == 0)


unlock = lib.binlog_unlock
hold, let_go = lib.binlog_hold, lib.binlog_let_go


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
    try:
        status = os.fstat(fd)
        for info in Path("/proc").glob("[0-9]*/fdinfo/*"):
            if _locks(info, status):
                return f"process {info.parts[2]}"
    except OSError:
        return None  # no descriptor left to look with, or another thread has closed this one
    return None


def _locks(info: Path, status: os.stat_result) -> bool:
    try:
        there = os.stat(info.parents[1] / "fd" / info.name)
        return (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino) and "lock:" in info.read_text()
    except OSError:
        return False  # gone, or another user's


def has_writers(directory: Directory, name: str) -> bool:
    """Whether anybody, this process included, has the file open for writing.

    Raises: NotFoundError; AccessError where that is not ours to ask.
    """
    path = directory.file_path(name)
    with directory.opened(name) as fd:
        try:
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EINVAL):
                text = "only its owner, on a file system with leases, can tell whether another program has it open"
                raise AccessError(f"{path}: {text}", errno=error.errno, path=path) from error
            raise failure(error.errno or 0, path, "asking for a lease") from error
    return False
