"""Obstacles in the way of an append: another program's lock, a leader that is stopped, and a disk that is full."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import binlog
from tests.support.children import Child
from tests.support.waiting import until


@contextmanager
def foreign_lock(log: Path, number: int = 1) -> Iterator[None]:
    """Hold the lock of a log file, as another program does."""
    fd = os.open(log / f"{number:08d}.dat", os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
        yield
    finally:
        os.close(fd)


@contextmanager
def stopped_leader(log: Path) -> Iterator[None]:
    """Stop another process in the middle of its commit; let it continue at the end."""
    ready, theirs = os.pipe()

    def lead() -> None:
        def stop(*_: object) -> None:
            os.write(theirs, b".")
            os.kill(os.getpid(), signal.SIGSTOP)

        with binlog.Writer(log) as writer:
            writer._open_session().run(stop)

    leader = Child(lead)
    os.close(theirs)
    os.read(ready, 1)
    os.close(ready)
    until(lambda: _is_stopped(leader.pid))
    try:
        yield
    finally:
        os.kill(leader.pid, signal.SIGCONT)
        leader.join()


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
