"""Storms: a process with threads that append dies at a random moment, and the next one opens the store at once."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from threading import Thread

from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from stress.crash.aftermath import keep_log
from stress.crash.context import Context
from stress.crash.ledger import tell_error
from stress.crash.mortal import Mortal
from stress.crash.store.aftermath import judge_store, remove_store
from stress.crash.store.ledger import StoreLedger, StoreOwn
from stress.crash.store.options import options

_THREADS = 4
_KILLS_A_ROUND = 12
_MESSAGES_A_KILL = 60
_ROOM = 20_000
_SIZE = 300
_PROGRESS_SECONDS = 20.0
_AT_ONCE = 0.25
"""Of the deaths, how many come so soon that most are in the middle of opening."""


class Storm:
    """Rounds of kills, each on a store of its own, which is opened with one way of flushing and another."""

    def __init__(self, context: Context, path: Path) -> None:
        self._context = context
        self._path = path
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/store-storm")
        self._ledger = StoreLedger(_THREADS, _ROOM)

    def turn(self) -> None:
        """One round."""
        counts = self._context.tally.row("store-kill/storm")
        begun = time.monotonic()
        self._ledger.clear()
        counts.runs += 1
        wrong: list[str] = []
        for _ in range(_KILLS_A_ROUND):
            self._context.current.set("a storm of kills of a store")
            wrong += self._life(self._chance.choice([*Flush]))
            if wrong or self._context.done:
                break
            counts.kills += 1
        wrong += judge_store(self._path, self._ledger, self._chance.choice([*Flush]))[1]
        counts.states += 1
        counts.acknowledged += self._ledger.told
        counts.seconds += time.monotonic() - begun
        if wrong:
            keep_log(self._context, "store-kill/storm", "a storm", {}, wrong, self._path)
        remove_store(self._path)

    def _life(self, flush: Flush) -> list[str]:
        """One process from its beginning to its death; what is wrong with it."""
        mortal = Mortal(lambda: _append_for_ever(self._path, self._ledger.writers, flush), self._ledger.writers[0])
        if self._chance.random() < _AT_ONCE:
            time.sleep(self._chance.random() * 0.02)
        else:
            wanted = self._ledger.told + self._chance.randrange(2 * _MESSAGES_A_KILL)
            deadline = time.monotonic() + _PROGRESS_SECONDS
            while self._ledger.told <= wanted and not mortal.poll():
                if time.monotonic() > deadline:
                    mortal.kill()
                    return [f"fewer than {wanted} messages were appended in {_PROGRESS_SECONDS:.0f} s"]
                os.sched_yield()
        ended = mortal.poll()
        mortal.kill()
        if ended:
            return [mortal.failure() or "a process has ended"]
        return []


def _append_for_ever(path: Path, owns: list[StoreOwn], flush: Flush) -> None:
    signal.alarm(0)  # it lives for as long as it is let
    store = MessageStore(path, options(flush))

    def work(own: StoreOwn) -> None:
        try:
            _append_many(store, own)
        except BaseException as error:  # noqa: BLE001 - the process ends here, whatever it was
            tell_error(owns[0], error)
            os._exit(1)

    for own in owns:
        Thread(target=work, args=(own,), daemon=True).start()
    while True:
        signal.pause()


def _append_many(store: MessageStore, own: StoreOwn) -> None:
    chance = random.Random(f"{own.writer}/{own.tried}")
    # As long as each other with pooled flush: what a buffer had before lies where the last message ends.
    size = _SIZE if store._options.flush is Flush.POOLED else 0
    while own.has_room:
        own.append(store, *([size] * chance.choices((1, 2, 5), (8, 1, 1))[0]))
        if store._options.flush is not Flush.SYNC:
            time.sleep(0.0005)  # else a life is over before any service has worked
