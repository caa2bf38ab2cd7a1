"""Members of a consumer group in processes of their own, which make single calls as the test asks for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.checkout import ROOT
from tests.support.group_workers import stop_process

_COMMANDED = """
import json, os, sys, threading, time
from pathlib import Path

path, name, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if "boot_id" in options:
    import binlog.storage.boot
    binlog.storage.boot._BOOT_ID = Path(options.pop("boot_id"))

from binlog import ConsumerGroup, Retry

if "retry" in options:
    options["retry"] = Retry(**options["retry"])
group = ConsumerGroup(path, name, **options)
items = {}

def get(timeout=0):
    item = group.get(timeout=timeout)
    if item is not None:
        items[item.sequence] = item
        return [item.sequence, item.delivery]

def failing_thread():
    threading.excepthook = lambda _: None
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()

def rest():
    due_ns = group.stat().next_due_ns
    return None if due_ns is None else (due_ns - time.time_ns()) / 1e9

commands = {
    "get": get,
    "ack": lambda sequence: items[sequence].ack(),
    "nack": lambda sequence, delay=None: items[sequence].nack(delay=delay),
    "back": lambda sequence: items[sequence].back(),
    "extend": lambda sequence, seconds: items[sequence].extend(seconds),
    "token": lambda sequence: items[sequence].token,
    "ack token": lambda token: group.ack(token),
    "failing thread": failing_thread,
    "rest": rest,
    "exec": lambda: os.execv(sys.executable, [sys.executable, "-c", "import sys; sys.stdin.read()"]),
    "close": group.close,
}
print("null", flush=True)
for line in sys.stdin:
    command, *arguments = json.loads(line)
    try:
        answer = commands[command](*arguments)
    except Exception as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(answer), flush=True)
"""


class CommandedWorker:
    """A process with a group that makes single calls: `get TIMEOUT`, `ack SEQUENCE` and others, see the program.

    options: arguments of ConsumerGroup; `retry` are those of Retry; `boot_id` is a file with another id of the boot.
    prefix: a command that runs the program.  environment: more variables of its environment.
    """

    def __init__(
        self,
        log: Path,
        name: str,
        *,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        **options: object,
    ) -> None:
        command = [*prefix, sys.executable, "-c", _COMMANDED, str(log), name, json.dumps(options)]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() is None

    @property
    def pid(self) -> int:
        """The process, or that of the command which runs it."""
        return self._process.pid

    def begin(self, command: str, *arguments: object) -> None:
        """Begin a call, and return before it ends."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Return what the call returned; blocks.  An exception is a dictionary with its name and text."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the worker has ended"
        return json.loads(line)

    def do(self, command: str, *arguments: object) -> Any:
        """Make a call, and return what it returned."""
        self.begin(command, *arguments)
        return self.answer()

    def error(self, command: str, *arguments: object) -> str:
        """Make a call that fails, and return the name of its exception."""
        answer = self.do(command, *arguments)
        assert isinstance(answer, dict), answer
        return str(answer["error"])

    def stop(self) -> None:
        """Stop the process, and wait until it is stopped."""
        stop_process(self.pid)

    def resume(self) -> None:
        """Let the stopped process continue."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> int:
        """Kill the process, and return the time of that (CLOCK_MONOTONIC)."""
        now = time.monotonic_ns()
        self._process.kill()
        return now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
