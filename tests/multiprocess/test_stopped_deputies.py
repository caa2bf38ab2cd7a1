"""The deputy, which waits for the lock on behalf of all, may be stopped, or wait for another file: the others
continue."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binlog import Writer
from tests.support.logs import read_all

_APPENDS = """
import sys
from pathlib import Path
from binlog import Writer

with Writer(Path(sys.argv[1])) as writer:
    for line in sys.stdin:
        print(writer.append(line.rstrip().encode()), flush=True)
"""
_WHOLE = (0, 0, 0, 0)


class Appender:
    """A process that appends records on command."""

    def __init__(self, log: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", _APPENDS, log], stdin=pipe, stdout=pipe, text=True)

    def begin(self, record: str) -> None:
        """Begin an append, without waiting for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(record + "\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Wait for the ref."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def append(self, record: str) -> str:
        """Append a record and return its ref."""
        self.begin(record)
        return self.end()

    def until_blocked(self, name: str) -> None:
        """Wait until the process is blocked in that kernel function."""
        where = Path(f"/proc/{self.process.pid}/wchan")
        until = time.monotonic() + 30
        while name not in where.read_text(encoding="ascii") and time.monotonic() < until:
            time.sleep(0.001)
        assert time.monotonic() < until, where.read_text(encoding="ascii")

    def stop(self) -> None:
        """Stop it, and wait until it is stopped: before that it could still get a lock that it waits for."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    fd = os.open(file, os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_WRLCK, *_WHOLE))
        yield
    finally:
        os.close(fd)


def test_a_stopped_deputy_blocks_no_writer(log: Path) -> None:
    stopped, other = Appender(log), Appender(log)
    for appender in (stopped, other):
        appender.append("so each has a ring")
    with _locked(log / "00000001.dat"):
        stopped.begin("taken along")
        stopped.until_blocked("fcntl")
        stopped.stop()
        other.begin("goes on")
        other.until_blocked("futex")
    assert other.end()
    assert other.append("and on")
    for appender in (stopped, other):
        appender.close()
    assert sorted(read_all(log)[2:]) == [b"and on", b"goes on", b"taken along"]


def test_a_deputy_for_a_closed_file_blocks_no_writer_of_the_open_one(log: Path) -> None:
    late, other = Appender(log), Appender(log)
    for appender in (late, other):
        appender.append("so each has a ring")
    with Writer(log) as writer:
        writer.cutover()
        assert other.append("in the next file").startswith("2:")
        with _locked(log / "00000001.dat"):
            late.begin("late")
            late.until_blocked("fcntl")
            with _locked(log / "00000002.dat"):
                other.begin("goes on")
                other.until_blocked("futex")
            assert other.end().startswith("2:")
        assert late.end().startswith("2:")
    for appender in (late, other):
        appender.close()
