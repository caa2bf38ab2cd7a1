"""Processes that are to die, forked from a worker, which has everything imported: thousands of them cost little."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

from stress.crash.ledger import Part, tell_error

HANG_SECONDS = 20
_FAILED = 3


class Mortal:
    """One forked process.

    work: what it does; an error ends it, and is told in `own`.  It ends itself, by a signal that makes it print where
    it is, once it takes longer than anything here can take.
    """

    def __init__(self, work: Callable[[], None], own: Part) -> None:
        self.own = own
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _live(work, own)
        self.status: int | None = None

    def poll(self) -> bool:
        """Whether it has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def wait(self) -> int:
        """Its wait status, once it has ended."""
        if self.status is None:
            _, self.status = os.waitpid(self.pid, 0)
        return self.status

    def kill(self) -> None:
        """End it with SIGKILL, and wait for that."""
        if not self.poll():
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return os.WIFSIGNALED(self.wait()) and os.WTERMSIG(self.wait()) == signal.SIGKILL

    def failure(self) -> str | None:
        """What is wrong with how it ended, where that was neither by itself nor by SIGKILL."""
        status = self.wait()
        if status == 0 or self.killed:
            return None
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            what = f"hung for {HANG_SECONDS} s" if number == signal.SIGALRM else f"died of signal {number}"
            return f"the process of writer {self.own.writer} {what}"
        return f"the process of writer {self.own.writer} failed: {self.own.text}"


def _live(work: Callable[[], None], own: Part) -> None:
    with contextlib.suppress(BaseException):
        try:
            faulthandler.register(signal.SIGALRM, chain=True)
            signal.alarm(HANG_SECONDS)
            work()
        except BaseException as error:  # noqa: BLE001 - the process ends here, whatever it was
            tell_error(own, error)
            os._exit(_FAILED)
        os._exit(0)
    os._exit(_FAILED)


def remove_log(log: Path, memory: str) -> None:
    """Remove a log's directory, and what its dead processes left in shared memory under names that begin so."""
    shutil.rmtree(log, ignore_errors=True)
    for name in os.listdir("/dev/shm"):
        if name.startswith(memory):
            with contextlib.suppress(OSError):
                os.unlink(f"/dev/shm/{name}")


def common_path(log: Path, memory: str) -> str:
    """What the paths of a log's files and of its shared memory begin with, and no others' of this worker."""
    same = zip(str(log), f"/dev/shm/{memory}", strict=False)
    return "".join(one for one, _ in takewhile(lambda both: both[0] == both[1], same))
