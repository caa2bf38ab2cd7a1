"""Workers of a consumer group in processes of their own, which tell on a pipe what they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

IDLE_AT = 2048  # see docs/format.md, "The bytes of a consumer group"


def idle_count(log: Path, name: str) -> int:
    """Return how many seats of a group have the mark of an idle member."""
    return sum((log / "groups" / name / "wakeups").read_bytes()[IDLE_AT : IDLE_AT + 256])


_PROGRAM = """
import sys, time
from binlog.consumers.group import ConsumerGroup, Retry

path, name, hangs_at = sys.argv[1:4]
group = ConsumerGroup(path, name, retry=Retry(deliveries_max=3, first=0.01))
print("joined", flush=True)
for item in group.consume(timeout=None):
    with item:
        print("got", item.sequence, item.delivery, time.monotonic_ns(), flush=True)
        if item.data == hangs_at.encode():
            time.sleep(600)
    print("acked", item.sequence, flush=True)
"""


class Worker:
    """A process that consumes messages until it is killed.  hangs_at: the message that it does not finish."""

    def __init__(self, path: Path, name: str, *, hangs_at: str = "") -> None:
        command = [sys.executable, "-c", _PROGRAM, str(path), name, hangs_at]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.line() == ["joined"]

    def line(self) -> list[str]:
        """Return the words of the next line, none at the end; blocks."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def until(self, *words: str) -> list[str]:
        """Read lines until one begins with these words, and return it."""
        while (found := self.line())[: len(words)] != list(words):
            assert found, f"the worker ended before {words}"
        return found

    def lines(self) -> list[list[str]]:
        """Return all lines to the end; the worker must have been killed."""
        assert self._process.stdout is not None
        return [line.split() for line in self._process.stdout]

    def kill(self) -> int:
        """Kill the process, and return the time of that (CLOCK_MONOTONIC)."""
        now = time.monotonic_ns()
        os.kill(self._process.pid, signal.SIGKILL)
        return now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
