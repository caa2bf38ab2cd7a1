"""Storms: a process with threads that append dies at a random moment, and the next one loads the journal at once."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from threading import Lock

from binlog.journal.options import JournalOptions
from stress.crash.aftermath import keep_log
from stress.crash.context import Context
from stress.crash.journal import programs
from stress.crash.journal.actor import Actor
from stress.crash.journal.aftermath import judge_journal, remove_journal
from stress.crash.journal.expectation import Crash
from stress.crash.journal.ledger import JournalLedger, JournalOwn
from stress.crash.journal.marks import Mark
from stress.crash.journal.openings import opened
from stress.crash.journal.options import OPTIONS
from stress.crash.mortal import Mortal
from stress.crash.together import at_once

_THREADS = 3
_KILLS_A_ROUND = 10
_MARKS_A_KILL = 200
_ROOM = 60_000
_PROGRESS_SECONDS = 20.0
_AT_ONCE = 0.25
"""Of the deaths, how many come so soon that most are in the middle of loading."""
_MIXES = (programs.RECORDS, programs.ALL, programs.REUSE)
_STEPS_A_TIME = 10


class _Shared:
    """The ledger's one part, for the threads of a process."""

    def __init__(self, own: JournalOwn) -> None:
        self._own = own
        self._mutex = Lock()

    def mark(self, mark: Mark) -> None:
        """Note a mark, now."""
        with self._mutex:
            self._own.mark(mark)


class Storm:
    """Rounds of kills, each on a journal of its own."""

    def __init__(self, context: Context, path: Path) -> None:
        self._context = context
        self._path = path
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/journal-storm")
        self._ledger = JournalLedger(1, _ROOM)

    def turn(self) -> None:
        """One round."""
        counts = self._context.tally.row("journal-kill/storm")
        begun = time.monotonic()
        self._ledger.clear()
        counts.runs += 1
        kept = self._chance.choice([*OPTIONS])
        wrong: list[str] = []
        for life in range(_KILLS_A_ROUND):
            self._context.current.set(f"a storm of kills of a journal ({kept})")
            wrong += self._life(OPTIONS[kept], life)
            if wrong or self._context.done:
                break
            counts.kills += 1
        wrong += judge_journal(self._path, OPTIONS[kept], self._ledger.expectation(), Crash.TORN)[1]
        counts.states += 1
        counts.acknowledged += self._ledger.promised
        counts.seconds += time.monotonic() - begun
        if wrong:
            keep_log(self._context, "journal-kill/storm", f"a storm ({kept})", {}, wrong, self._path)
        remove_journal(self._path)

    def _life(self, options: JournalOptions, life: int) -> list[str]:
        """One process from its beginning to its death; what is wrong with it."""
        own = self._ledger.writers[0]
        mortal = Mortal(lambda: _append_for_ever(self._path, options, own, life), own)
        if self._chance.random() < _AT_ONCE:
            time.sleep(self._chance.random() * 0.02)
        else:
            wanted = own.tried + self._chance.randrange(2 * _MARKS_A_KILL)
            deadline = time.monotonic() + _PROGRESS_SECONDS
            while own.tried <= wanted and not mortal.poll():
                if time.monotonic() > deadline:
                    mortal.kill()
                    return [f"fewer than {wanted} marks were made in {_PROGRESS_SECONDS:.0f} s"]
                os.sched_yield()
        ended = mortal.poll()
        mortal.kill()
        if ended:
            return [mortal.failure() or "a process has ended"]
        return []


def _append_for_ever(path: Path, options: JournalOptions, own: JournalOwn, life: int) -> None:
    signal.alarm(0)  # it lives for as long as it is let
    witness = _Shared(own)
    actors = [Actor(witness, life * _THREADS + number) for number in range(_THREADS)]
    with opened(path, options, witness, *actors) as journal:

        def work(number: int) -> None:
            chance = random.Random(f"{life}/{number}")
            while own.has_room:
                programs.run(actors[number], journal, chance, _MIXES[number], _STEPS_A_TIME)

        at_once(*((lambda number=number: work(number)) for number in range(_THREADS)))
    while True:
        signal.pause()
