"""Storms: eight processes append in every mode, die at random moments and are replaced at once; others are stopped.

Whoever is to die is stopped first, so that it can be told whether it held the file's lock; half of the time, and more,
one that does is chosen.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from binlog import Background, Mode, Writer
from stress.crash.aftermath import judge_log, keep_log
from stress.crash.context import Context
from stress.crash.judge import PREPARE_BYTES
from stress.crash.ledger import Ledger, Own
from stress.crash.mortal import Mortal, common_path, remove_log
from stress.crash.striker import NOTHING, Slots, arm

_PROCESSES = 8
_ROOM = 100_000
_KILLS_A_ROUND = 100
_RECORDS_A_KILL = 70
"""Between two kills, wait for about so many more to be acknowledged: what dies is a log at work."""
_PROGRESS_SECONDS = 10.0
_INSIDE_SHARE = 0.7
_ATTEMPTS = 2_000
_STOPS = 0.1
_CUTOVERS = 0.002

_BACKGROUND = Background(flush_seconds=0.01, sync_seconds=0.02)
_MODES = (
    (Mode.SYNC,), (Mode.SYNC,), (Mode.SYNC,), (Mode.FLUSH,), (Mode.STAGE,), (Mode.SYNC, Mode.FLUSH, Mode.STAGE),
    (Mode.SYNC, Mode.STAGE), (Mode.SYNC,),
)  # fmt: skip


class Storm:
    """Rounds of kills, each on a log of its own."""

    def __init__(self, context: Context, log: Path) -> None:
        self._context = context
        self._log = log
        self._under = common_path(log, context.job.memory)
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/storm")
        self._ledger = Ledger(_PROCESSES + 1, _ROOM)
        self._slots = Slots(_PROCESSES)
        self._mortals: list[Mortal] = []

    def turn(self) -> None:
        """One round."""
        counts = self._context.tally.row("kill/storm")
        begun = time.monotonic()
        self._context.current.set("a storm of kills")
        self._ledger.clear()
        counts.runs += 1
        wrong: list[str] = []
        try:
            self._mortals = [self._born(own) for own in self._ledger.writers[:_PROCESSES]]
            for _ in range(_KILLS_A_ROUND):
                wrong += self._until_more_is_told()
                if wrong or self._context.done:
                    break
                counts.inside += self._strike()
                counts.kills += 1
        finally:
            for mortal in self._mortals:
                mortal.kill()
        wrong += [failure for mortal in self._mortals if (failure := mortal.failure())]
        self._mortals = []
        wrong += judge_log(self._log, self._ledger, self._ledger.writers[_PROCESSES], None)
        counts.states += 1
        counts.acknowledged += self._ledger.told
        counts.seconds += time.monotonic() - begun
        if wrong:
            keep_log(self._context, "kill/storm", "a storm", {}, wrong, self._log)
        remove_log(self._log, self._context.job.memory)

    def _born(self, own: Own) -> Mortal:
        def live() -> None:
            signal.alarm(0)  # it lives for as long as it is let
            arm(NOTHING, self._under, self._slots[own.writer])
            _append_for_ever(self._log, own)

        return Mortal(live, own)

    def _until_more_is_told(self) -> list[str]:
        """Wait for progress; what is wrong where there is none, or where a process ended by itself."""
        told = self._ledger.told
        wanted = told + self._chance.randrange(2 * _RECORDS_A_KILL)
        deadline = time.monotonic() + _PROGRESS_SECONDS
        while self._ledger.told <= wanted:
            os.sched_yield()
            ended = [mortal for mortal in self._mortals if mortal.poll()]
            if ended:
                return [failure for mortal in ended if (failure := mortal.failure())] or ["a process has ended"]
            if time.monotonic() > deadline:
                return [f"{self._ledger.told - told} records were appended in {_PROGRESS_SECONDS:.0f} s, by all"]
        return []

    def _strike(self) -> bool:
        """Kill one, and have another in its place; whether it held the lock."""
        if self._chance.random() < _STOPS:
            self._pause()
        inside = self._chance.random() < _INSIDE_SHARE
        for _ in range(_ATTEMPTS):
            among = self._slots.locked() if inside else range(_PROCESSES)
            if not among:
                continue
            index = self._chance.choice(list(among))
            mortal = self._mortals[index]
            _stop(mortal)
            if mortal.status is not None or not inside or self._slots[index].locked:
                break
            os.kill(mortal.pid, signal.SIGCONT)
        else:
            index = self._chance.randrange(_PROCESSES)
            mortal = self._mortals[index]
            _stop(mortal)
        held = bool(self._slots[index].locked)
        mortal.kill()
        if mortal.own.has_room:
            self._slots[index].locked = 0
            self._mortals[index] = self._born(self._ledger.writers[index])
        return held

    def _pause(self) -> None:
        """Stop one for as long as some others take for a hundred records; where it holds the lock, for a moment."""
        mortal = self._chance.choice(self._mortals)
        _stop(mortal)
        until = time.monotonic() + 0.02
        told = self._ledger.told
        while time.monotonic() < until and self._ledger.told < told + _RECORDS_A_KILL:
            os.sched_yield()
        if mortal.status is None:
            os.kill(mortal.pid, signal.SIGCONT)


def _stop(mortal: Mortal) -> None:
    """Stop it, and wait until it has stopped, or has ended."""
    if mortal.poll():
        return
    os.kill(mortal.pid, signal.SIGSTOP)
    _, status = os.waitpid(mortal.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        mortal.status = status


def _append_for_ever(log: Path, own: Own) -> None:
    chance = random.Random(f"{own.writer}/{own.tried}")
    modes = _MODES[own.writer]
    writer = Writer(log, prepare_bytes=PREPARE_BYTES * 64, background=_BACKGROUND)
    while own.has_room:
        mode = chance.choice(modes)
        if own.writer == _PROCESSES - 1 or chance.random() < 0.1:
            own.append_many(writer, chance.randint(2, 6), mode)
        else:
            own.append(writer, mode)
        if chance.random() < _CUTOVERS:
            writer.cutover()
        elif mode is not Mode.SYNC and chance.random() < 0.01:
            writer.sync()
        if mode is Mode.STAGE and chance.random() < 0.9:
            os.sched_yield()  # it would fill the log alone
    while True:
        signal.pause()
