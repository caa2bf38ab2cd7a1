"""Rounds: a queue, processes that are killed one after the other, and what is found in the end."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from binlog.journal import check_journal
from binlog.paging import check_paging
from stress.crash.marks import Ledger
from stress.paging.judge import Judge
from stress.paging.ledger import Identity, mark_of
from stress.paging.life import live, open_small
from stress.paging.messages import identity_of

PRODUCERS = (1, 4, 16)
_CONSUMERS = 2
_MARKS_A_LIFE = 3_000
_SILENCE_SECONDS = 60.0
_SOON = 0.2
_SOON_SECONDS = 0.1


class Round:
    """One queue.  kills, mark_count: how many there were."""

    def __init__(self, folder: Path, seed: str, producers: int) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._path = folder / "queue"
        self._ledger = Ledger(folder / "ledger")
        self._chance = random.Random(seed)
        self._producers = producers
        self.kills = self.mark_count = 0
        self.found: list[Identity] = []

    def run(self, lives: int) -> list[str]:
        """Let so many processes live and die, then look; what is wrong."""
        try:
            for life in range(1, lives + 1):
                wrong = self._kill(life)
                if wrong:
                    return wrong
                self.kills += 1
            return self._look()
        finally:
            self.mark_count = self._ledger.count
            self._ledger.close()

    def _kill(self, life: int) -> list[str]:
        before = self._ledger.count
        pid = _forked(lambda: live(self._path, self._ledger, life, self._producers, _CONSUMERS))
        if self._chance.random() < _SOON:
            time.sleep(self._chance.random() * _SOON_SECONDS)  # most die while they open it
        else:
            wanted = before + self._chance.randrange(1, _MARKS_A_LIFE)
            deadline = time.monotonic() + _SILENCE_SECONDS
            while self._ledger.count < wanted:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    return [f"process {life} has ended by itself"]
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGABRT)
                    os.waitpid(pid, 0)
                    return [f"process {life} made no {wanted - before} marks in {_SILENCE_SECONDS:.0f} s"]
                os.sched_yield()
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        return [] if os.WIFSIGNALED(status) else [f"process {life} has ended by itself"]

    def _look(self) -> list[str]:
        wrong = [f"check after the last kill: {problem}" for problem in self._problems()]
        with open_small(self._path) as queue:
            while not queue.empty():
                message = queue.get_nowait()
                self.found.append(identity_of(message.body))
                queue.ack(message)
            wrong += [f"in the queue: {problem}" for problem in queue.problems]
        wrong += Judge(map(mark_of, self._ledger.marks())).wrong(self.found)
        with open_small(self._path) as queue:
            if not queue.empty():
                wrong.append("there is something in a queue of which all was acknowledged")
        return wrong + [f"check in the end: {problem}" for problem in self._problems()]

    def _problems(self) -> list[object]:
        return [*check_paging(self._path), *check_journal(self._path / "journal")]


def _forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the process ends here, and tells why
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid
