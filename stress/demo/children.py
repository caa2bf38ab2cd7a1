"""The processes that the director starts: their messages and their end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

ROOT = Path(__file__).resolve().parents[2]

# A writer is ahead of the director by at most what fits in the pipe: some twenty records.
_PIPE_BYTES = 4096

_END_SECONDS_MAX = 10

# Far longer than any step takes; only a hang is silent for so long.
_SILENCE_SECONDS_MAX = 300


class Child:
    """A process in a role."""

    def __init__(self, role: str, arguments: list[str], errors: IO[bytes] | None) -> None:
        self.role = role
        self._rest = b""
        # Its own process group, so that Ctrl-C reaches only the director, and all that a child starts ends with it.
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"stress.demo.{role}", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            process_group=0,
            pipesize=_PIPE_BYTES,
        )
        assert self.process.stdout is not None
        self.pipe: IO[bytes] = self.process.stdout

    def read(self) -> Iterator[list[str] | None]:
        """Yield its messages since the last call, split into words; None at the end."""
        data = os.read(self.pipe.fileno(), _PIPE_BYTES)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").split(" ")
        if not data:
            yield None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process alone; it may have exited, but has not been waited for."""
        os.kill(self.process.pid, number)

    def end(self) -> None:
        """Kill it and everything that it started, and wait for all of them."""
        # Its id, and so its group's, is not reused before it is waited for.
        os.killpg(self.process.pid, signal.SIGTERM)
        if not self._drained():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.pipe.close()

    def _drained(self) -> bool:
        """Return whether all processes with the other end of the pipe exit within some seconds."""
        deadline = time.monotonic() + _END_SECONDS_MAX
        with selectors.DefaultSelector() as selector:
            selector.register(self.pipe, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0 and selector.select(left):
                if not os.read(self.pipe.fileno(), _PIPE_BYTES):
                    return True
        return False


class Children:
    """All child processes.  Leaving the `with` block kills those that still run."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._running: list[Child] = []

    def start(self, role: str, *, errors: IO[bytes] | None = None, **arguments: object) -> Child:
        """Start a process in a role.  errors: for its standard error, if not ours."""
        words = [word for name, value in arguments.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        child = Child(role, words, errors)
        self._running.append(child)
        self._selector.register(child.pipe, selectors.EVENT_READ, child)
        return child

    def messages(self) -> Iterator[tuple[Child, list[str] | None]]:
        """Yield the messages of all children, split into words; None when one exits.  Ends when the last one exits.

        Raises: TimeoutError if all are silent for minutes.
        """
        while self._running:
            ready = self._selector.select(_SILENCE_SECONDS_MAX)
            if not ready:
                raise TimeoutError(f"no message from {', '.join(child.role for child in self._running)}")
            for key, _ in ready:
                child: Child = key.data
                for words in child.read():
                    if words is None:
                        self._ended(child)
                    yield child, words

    def _ended(self, child: Child) -> None:
        self._selector.unregister(child.pipe)
        self._running.remove(child)
        child.process.wait()
        child.pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for child in self._running:
            child.end()
        self._selector.close()
