"""Run the command line in processes, with pipes or terminals, and wait for its output."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

import binlog

ROOT = Path(__file__).resolve().parents[3]
COMMAND = (sys.executable, "-m", "binlog")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "LC_ALL": "C.UTF-8"}

SECONDS_MAX = 30.0


def run(*arguments: object, data: bytes = b"", **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run the command and wait until it exits."""
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*COMMAND, *map(str, arguments)],
        input=data,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=SECONDS_MAX,
        check=False,
        **options,
    )


@contextmanager
def started(*arguments: object, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command, by default with three pipes, and kill it at the end of the block."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen([*COMMAND, *map(str, arguments)], env=ENVIRONMENT, bufsize=0, **streams) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


class Stream:
    """Reads a descriptor no further than asked."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._ahead = b""

    def read_until(self, wanted: bytes) -> bytes:
        """Read up to and including these bytes."""
        assert self.comes(wanted, SECONDS_MAX), f"timed out before {wanted!r} came: {self._ahead!r}"
        end = self._ahead.index(wanted) + len(wanted)
        seen, self._ahead = self._ahead[:end], self._ahead[end:]
        return seen

    def comes(self, wanted: bytes, seconds: float) -> bool:
        """Return whether the bytes arrive within a time, without consuming them."""
        deadline = time.monotonic() + seconds
        while wanted not in self._ahead:
            if not select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))[0]:
                return False
            data = self._read()
            assert data, f"ended before {wanted!r} came: {self._ahead!r}"
            self._ahead += data
        return True

    def read_rest(self) -> bytes:
        """Read until the other end is closed."""
        seen, self._ahead = self._ahead, b""
        while data := self._read():
            seen += data
        return seen

    def _read(self) -> bytes:
        try:
            return os.read(self.fd, 1 << 16)
        except OSError:  # the terminal's last program has exited
            return b""


def read_lines(stream: IO[bytes] | None, count: int) -> list[bytes]:
    """Read this many lines."""
    assert stream is not None
    seen: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(seen) < count:
        ready, _, _ = select.select([stream], [], [], max(deadline - time.monotonic(), 0))
        line = stream.readline() if ready else b""  # unbuffered, so that select sees all data
        assert line, f"{count} lines were to come: {seen!r}"
        seen.append(line)
    return seen


def read_line_with(stream: IO[bytes] | None, wanted: bytes) -> bytes:
    """Read up to the first line that contains these bytes, and return it."""
    deadline = time.monotonic() + SECONDS_MAX
    while wanted not in (line := read_lines(stream, 1)[0]):
        assert time.monotonic() < deadline, f"no line with {wanted!r}; the last was {line!r}"
    return line


def wait_for(condition: Callable[[], bool]) -> None:
    """Poll a condition that cannot be waited for."""
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Wait for the exit, and return the code (-N for signal N) and the rest of standard error."""
    code = process.wait(SECONDS_MAX)
    return code, process.stderr.read() if process.stderr is not None else b""


class Terminal(Stream):
    """A command on its own terminal."""

    def __init__(self, *arguments: object, rows: int = 30, columns: int = 100) -> None:
        own, other = pty.openpty()
        super().__init__(own)
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=other,
            stdout=other,
            stderr=other,
            env=ENVIRONMENT,
            # A new session with this terminal, so that Ctrl-C and a resize arrive as signals.
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(other, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(other)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.fd)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)


def fill(path: Path, *files: Sequence[bytes]) -> list[binlog.Ref]:
    """Write a log with these records in its files, the last of them open."""
    refs: list[binlog.Ref] = []
    with binlog.Writer(path) as writer:
        for index, records in enumerate(files):
            if index:
                writer.cutover()
            refs += writer.append_many(records)
    return refs


def records(path: Path) -> list[bytes]:
    """Return every record of a log."""
    with binlog.Reader(path) as reader:
        return [entry.data for entry in reader]
