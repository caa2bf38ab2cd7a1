"""The exclusive lock over a whole open file, and the test whether a file is open for writing.

The kernel frees the lock when its holder dies; native/shared/lock.c has the facts.  Call `lock` within a `try`, and
`unlock` first in its `finally`: no Python runs between a C call and the next one, so Ctrl-C cannot leave a file locked.

A writer marks its thread with `hold` before `lock`, in the same `try`.  It calls `let_go` in place of `unlock`, which
also clears the mark, in the same call of C.

Facts relied on by `has_writers`:
- fcntl(2), F_SETLEASE: a process gets a read lease, on a read-only descriptor, only if no process of this kernel has
  the file open for writing.  It must own the file, or have CAP_LEASE.
- fcntl(2), F_SETSIG: if another process opens the file for writing during the lease, the kernel sends us a signal.  The
  default, SIGIO, would kill the process; SIGURG is ignored by default (signal(7)).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from binlog.errors import AccessError, BusyError
from binlog.storage.directory import Directory
from binlog.storage.failures import failure
from binlog.storage.native import lib

_SECONDS_MAX = 10**9


def lock(fd: int, path: str, timeout: float | None = None) -> None:
    """Acquire the lock.  timeout: seconds to wait; None waits forever.

    Raises: BusyError, with the holder if it can be found; AccessError.
    """
    # EINTR: Python has run the signal handlers before the call returned to us.
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


@contextmanager
def locked(directory: Directory, name: str) -> Iterator[None]:
    """Hold the lock of a file in a directory for a block; the file is made if it does not exist.

    Blocks while another thread or process has it.  Raises: AccessError; FullError.
    """
    directory.make(name)
    with directory.opened(name, writable=True) as fd:
        lock(fd, directory.file_path(name))
        yield


def busy(fd: int, path: str) -> BusyError:
    """Return the error for a lock that another holder has."""
    held_by = holder(fd)
    return BusyError(f"{path} is locked by {held_by or 'another open file'}", holder=held_by)


def _nanoseconds_to(deadline: float) -> int:
    return int(max(deadline - time.monotonic(), 0) * 1e9)


def try_lock(fd: int) -> bool:
    """Acquire the lock if it is free; return whether it was."""
    return bool(lib.binlog_try_lock(fd) == 0)


unlock = lib.binlog_unlock
hold, let_go = lib.binlog_hold, lib.binlog_let_go


def is_locked(fd: int) -> bool:
    """Return whether another holder has a lock on the file.  The descriptor may be read-only."""
    return bool(lib.binlog_lock_owner(fd) != 0)


def holder(fd: int) -> str | None:
    """Return a text that names the process with a lock on the file, or None if none can be found."""
    owner = lib.binlog_lock_owner(fd)
    if owner == 0:
        return None
    if owner > 0:
        return f"process {owner}"
    return open_holder(fd)


def open_holder(fd: int) -> str | None:
    """Return as `holder`, for a lock that belongs to an open file description."""
    # The kernel names no process for such a lock, but lists it in the descriptor's fdinfo (proc(5)).
    # Not with Path.glob, whose regular expressions cannot be compiled while the interpreter ends.
    try:
        status = os.fstat(fd)
        for process in filter(str.isdigit, os.listdir("/proc")):
            if _has_lock(f"/proc/{process}", status):
                return f"process {process}"
    except OSError:
        return None  # the process has no free descriptor, or another thread closed this one
    return None


def _has_lock(process: str, status: os.stat_result) -> bool:
    """Return whether a process locks the file through one of its descriptors."""
    with suppress(OSError):  # the process ended, or belongs to another user
        for number in os.listdir(f"{process}/fd"):
            with suppress(OSError):  # it closed the descriptor
                if os.path.samestat(os.stat(f"{process}/fd/{number}"), status):
                    with open(f"{process}/fdinfo/{number}", encoding="ascii") as file:
                        if "lock:" in file.read():
                            return True
    return False


def has_writers(directory: Directory, name: str) -> bool:
    """Return whether any process, including this one, has the file open for writing.

    Raises: NotFoundError; AccessError if the kernel does not let this process ask.
    """
    import signal  # only retention asks, and only in a log with foreign writers

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
                text = "only its owner, on a file system with leases, can find out whether another program has it open"
                raise AccessError(f"{path}: {text}", errno=error.errno, path=path) from error
            raise failure(error.errno or 0, path, "asking for a lease") from error
    return False
