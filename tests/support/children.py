"""Child processes of a test: forked, killed, or running a program, with failures reported to the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from tests.support.checkout import ROOT


class Child:
    """Runs `work(*arguments)` in a forked child.  `join` fails with the child's traceback."""

    def __init__(self, work: Callable[..., object], *arguments: object) -> None:
        self._errors, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._errors)
            _run(work, arguments, theirs)
        os.close(theirs)

    def join(self) -> None:
        """Wait until it has ended; raise AssertionError if it failed."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        # Not to the end of the pipe: a child of the child may keep it open.
        os.set_blocking(self._errors, False)
        try:
            text = os.read(self._errors, 1 << 16).decode()
        except BlockingIOError:
            text = ""
        os.close(self._errors)
        assert status == 0, f"the child ended with {status}\n{text}"


def killed_after(work: Callable[[], object]) -> None:
    """Run a function in a forked child, which is then killed."""
    child = os.fork()
    if child == 0:
        try:
            _kept = work()  # keep the result: collecting it might have effects
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def run_script(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a Python program in another process and return its result."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def lines_until_killed(script: str, *arguments: object, enough: Callable[[list[str]], bool]) -> list[str]:
    """Run a Python program, and kill it when its output is `enough`; return its complete lines."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not enough(lines):
            lines.append(process.stdout.readline())
        process.kill()
        lines += process.stdout.readlines()
    return [line for line in lines if line.endswith("\n")]


def _run(work: Callable[..., object], arguments: tuple[object, ...], errors: int) -> NoReturn:
    status = 1
    try:
        work(*arguments)
        status = 0
    except BaseException:  # noqa: BLE001 - any error is reported to the parent
        os.write(errors, traceback.format_exc().encode())
    finally:
        # Not sys.exit: exit handlers of pytest and its plugins belong to the parent.
        os._exit(status)
