"""Victim processes: forked from a worker, which has imported everything, because thousands of them die."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import os
import signal
import sys
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NoReturn

from binlog.errors import BinlogError

HANG_SECONDS = 20
_FAILED = 3
_OUTPUT_BYTES = 1 << 16


class VictimProcess:
    """One forked process.

    work: its function; an error ends the process and becomes its output, as does the function's result, as JSON.  A
        process that hangs ends itself with a signal that makes it print its stack.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._memory = mmap.mmap(-1, _OUTPUT_BYTES)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(work)
        self.status: int | None = None

    @property
    def output(self) -> str:
        """The result of `work`, or the text of its error."""
        return self._memory[:].rstrip(b"\0").decode(errors="replace")

    def poll(self) -> bool:
        """Return whether it has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def wait(self) -> int:
        """Wait until it has ended and return its wait status."""
        if self.status is None:
            _, self.status = os.waitpid(self.pid, 0)
        return self.status

    def stop(self) -> None:
        """Stop it, and wait until it has stopped or ended."""
        if self.poll():
            return
        os.kill(self.pid, signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self.status = status

    def resume(self) -> None:
        """Continue it after `stop`."""
        if self.status is None:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it with SIGKILL and wait for its end."""
        if not self.poll():
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return os.WIFSIGNALED(self.wait()) and os.WTERMSIG(self.wait()) == signal.SIGKILL

    def failures(self) -> list[str]:
        """Return the violation if it ended neither normally nor by SIGKILL."""
        status = self.wait()
        if status == 0 or self.killed:
            return []
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return [f"a process hung for {HANG_SECONDS} s" if number == signal.SIGALRM else f"died of signal {number}"]
        return [f"a process failed: {self.output}"]

    def _run(self, work: Callable[[], Any]) -> None:
        with contextlib.suppress(BaseException):
            try:
                faulthandler.register(signal.SIGALRM, chain=True)
                signal.alarm(HANG_SECONDS)
                output = work()
                if output is not None:
                    self._set_output(json.dumps(output))
            except BaseException as error:  # noqa: BLE001 - the process ends here, after any error
                self._set_output(error_text(error))
                os._exit(_FAILED)
            os._exit(0)
        os._exit(_FAILED)

    def _set_output(self, text: str) -> None:
        data = text.encode()[:_OUTPUT_BYTES]
        self._memory[: len(data)] = data


def error_text(error: BaseException) -> str:
    """Return an error as printed."""
    ours = "" if isinstance(error, BinlogError) else "not one of binlog's errors: "
    return f"{ours}{type(error).__name__}: {error}"


def result_of(victim: VictimProcess) -> tuple[Any, list[str]]:
    """Return the result of its work, from JSON, and the failures of the process."""
    failures = victim.failures()
    return (None if failures or victim.killed else json.loads(victim.output)), failures


def run_and_kill(work: Callable[[], None]) -> None:
    """Run a function in a forked process, which must end with SIGKILL: an injected one, or its own at the end."""

    def victim() -> None:
        work()
        os.kill(os.getpid(), signal.SIGKILL)

    child = VictimProcess(victim)
    if not child.killed:
        raise RuntimeError(f"a process should have been killed: {child.failures()}")


def common_path(path: Path, memory: str) -> str:
    """Return the common prefix of the paths of files and of shared memory, which no other file of this worker has."""
    same = zip(str(path), f"/dev/shm/{memory}", strict=False)
    return "".join(one for one, _ in takewhile(lambda both: both[0] == both[1], same))


def remove_shared_memory(memory: str) -> None:
    """Remove the shared memory of dead processes, by the prefix of its names."""
    for name in os.listdir("/dev/shm"):
        if name.startswith(memory):
            with contextlib.suppress(OSError):
                os.unlink(f"/dev/shm/{name}")


def repeat_in_threads(*works: Callable[[], None]) -> NoReturn:
    """Repeat each function in a thread of its own; raise the first error."""
    failures: SimpleQueue[BaseException] = SimpleQueue()

    def run(work: Callable[[], None]) -> None:
        try:
            while True:
                work()
        except BaseException as error:  # noqa: BLE001 - raised below, in the calling thread
            failures.put(error)

    for work in works:
        Thread(target=run, args=(work,), daemon=True).start()
    raise failures.get()
