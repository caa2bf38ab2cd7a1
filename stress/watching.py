"""The CPU time of `binlog monitor` and `binlog top`, idle and while a process appends: python -m stress.watching.

Each program runs on a terminal of its own, beside a process that appends in Mode.FLUSH.  What counts is the CPU time of
the program, as the kernel counts it, so that other programs on the machine hardly matter.  It asserts nothing.

Facts relied on:
- proc(5): /proc/PID/stat has the user and system time of a process, with all its threads, in ticks.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event

import binlog

_PROGRAMS = ("monitor", "top")
_APPENDS_PER_SECOND = 50
_READ_BYTES = 1 << 16
_START_SECONDS = 3.0
_FILLED_AT_ONCE = 10_000
_GROUPS = ("billing", "mail")
_LEVELS = (("INFO", 9),) * 17 + (("DEBUG", 5), ("WARNING", 13), ("ERROR", 17))


def main() -> int:
    """Measure, and print a line for each program and load."""
    parser = argparse.ArgumentParser(prog="python -m stress.watching", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each measurement takes")
    parser.add_argument("--records-per-second", type=int, default=20_000, help="what the writer appends")
    parser.add_argument("--size", default="80x24", help="of the terminal: columns x rows")
    parser.add_argument("--filled-records", type=int, default=1_000_000, help="how many the log has at first")
    parser.add_argument("--program", choices=_PROGRAMS, action="append", help="default: all")
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    folder = tempfile.mkdtemp(prefix="binlog-watching-")
    try:
        _fill(folder, options.filled_records)
        for program in options.program or _PROGRAMS:
            for rate in (0, options.records_per_second):
                with _appending(folder, rate), _on_a_terminal(program, folder, rows, columns) as process:
                    before = binlog.stat(folder).record_count or 0
                    cpu = _cpu_share(process, options.seconds)
                    records = ((binlog.stat(folder).record_count or 0) - before) / options.seconds
                what = f"{program:8} {options.size} {records:8,.0f} records/s"
                print(f"{what}   {100 * cpu:5.1f} % of a core", flush=True)
    finally:
        shutil.rmtree(folder)
    return 0


def _fill(folder: str, count: int) -> None:
    """Write a log with a file of `count` records, two consumer groups and a follower."""
    with binlog.Writer(folder, mode=binlog.Mode.FLUSH) as writer:
        for first in range(0, count, _FILLED_AT_ONCE):
            writer.append_many([_event(number) for number in range(first, min(first + _FILLED_AT_ONCE, count))])
    for name in _GROUPS:
        binlog.ConsumerGroup(folder, name).close()
    with open(os.path.join(folder, "shipper.position"), "w", encoding="ascii") as file:
        file.write(f"{binlog.stat(folder).tail}\n")


def _event(number: int) -> bytes:
    level, severity = _LEVELS[number % len(_LEVELS)]
    event = {
        "time": "2025-01-31T12:00:00.123456Z",
        "severity": severity,
        "level": level,
        "logger": f"app.part{number % 7}",
        "body": f"order {number} was handled",
        "attributes": {"order": number},
    }
    return json.dumps(event, separators=(",", ":")).encode()


@contextmanager
def _appending(folder: str, records_per_second: int) -> Iterator[None]:
    """Append in another process for a block."""
    if not records_per_second:
        yield
        return
    context = multiprocessing.get_context("spawn")
    stopping = context.Event()
    process = context.Process(target=_append, args=(folder, records_per_second, stopping))
    process.start()
    try:
        yield
    finally:
        stopping.set()
        process.join()


def _append(folder: str, records_per_second: int, stopping: Event) -> None:
    count = records_per_second // _APPENDS_PER_SECOND
    records = [_event(number) for number in range(count)]
    began, turn = time.monotonic(), 0
    with binlog.Writer(folder, mode=binlog.Mode.FLUSH) as writer:
        while not stopping.wait(max(began + turn / _APPENDS_PER_SECOND - time.monotonic(), 0)):
            writer.append_many(records)
            turn += 1


@contextmanager
def _on_a_terminal(program: str, folder: str, rows: int, columns: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program on a terminal for a block, and read its output."""
    own, other = pty.openpty()
    fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    command = [sys.executable, "-m", "binlog", program, folder]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment) as process:
        os.close(other)
        reading = threading.Thread(target=_read_all, args=(own,))
        reading.start()
        time.sleep(_START_SECONDS)
        try:
            if process.poll() is not None:
                raise RuntimeError(f"binlog {program} ended with {process.returncode}")
            yield process
        finally:
            process.terminate()
            process.wait()
            reading.join()
            os.close(own)


def _read_all(fd: int) -> None:
    try:
        while os.read(fd, _READ_BYTES):
            pass
    except OSError:
        return  # EIO: the program has ended


def _cpu_share(process: subprocess.Popen[bytes], seconds: float) -> float:
    """Return the share of a core that a process uses."""
    before, began = _cpu_seconds(process.pid), time.monotonic()
    time.sleep(seconds)
    return (_cpu_seconds(process.pid) - before) / (time.monotonic() - began)


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
