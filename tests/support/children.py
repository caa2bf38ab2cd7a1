"""Children of a test: forked, with failures that are the test's, killed, and programs of their own."""

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
        """Wait until it has ended; raise AssertionError where it did not end well."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        # Not to the end of the pipe: a child of the child may live on and hold it open.
        os.set_blocking(self._errors, False)
        try:
            text = os.read(self._errors, 1 << 16).decode()
        except BlockingIOError:
            text = ""
        os.close(self._errors)
        assert status == 0, f"the child ended with {status}\n{text}"


def killed_after(work: Callable[[], object]) -> None:
    """Have a forked child do something and be killed, whatever comes of it."""
    child = os.fork()
    if child == 0:
        try:
            _kept = work()  # what is collected may end something
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def run_script(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program of Python in another process; what became of it."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def lines_until_killed(script: str, *arguments: object, enough: Callable[[list[str]], bool]) -> list[str]:
    """Run a program of Python, and kill it once what it has printed is enough; the whole lines of what it printed."""
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
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
        os.write(errors, traceback.format_exc().encode())
    finally:
        # Not sys.exit: what pytest and its plugins would do at the end belongs to the parent.
        os._exit(status)
