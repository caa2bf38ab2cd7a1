"""Storms: processes die at random moments and are replaced at once; of several, some are stopped for a while.

If there are several, the victim is stopped before it is killed, so that the harness knows whether it held a file's
lock; more than half of the time a process that does is chosen.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

from stress.crash.case import keep_case
from stress.crash.context import Context
from stress.crash.marks import Ledger
from stress.crash.mortal import Mortal, common_path
from stress.crash.striker import NOTHING, Slots, arm
from stress.crash.system import Crash, Storm, System, Who

_PROGRESS_SECONDS = 20.0
_SOON, _SOON_SECONDS = 0.25, 0.02
"""The share of deaths that are so early that most are in the middle of opening."""
_INSIDE_SHARE = 0.7
_ATTEMPTS = 2_000
_STOPS = 0.1
_STOP_SECONDS = 0.02


class Storms:
    """Runs storms, each on a new path."""

    def __init__(self, context: Context, system: System[Any, Any], part: str, path: Path) -> None:
        self._context = context
        self._system = system
        self._row = f"{part}/storm"
        self._path = path
        self._memory = system.memory or context.job.memory
        self._under = common_path(path, self._memory)
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/{part}-storm")
        self._ledger = Ledger()
        self._mortals: list[Mortal] = []
        self._life = 0
        if system.storm:
            self._slots = Slots(system.storm.processes)

    def turn(self) -> None:
        """Run one storm."""
        system, storm, ledger = self._system, self._system.storm, self._ledger
        assert storm is not None
        counts = self._context.tally.row(self._row)
        begun = time.monotonic()
        self._context.current.set("a storm of kills")
        ledger.clear()
        counts.runs += 1
        kept, self._life = self._chance.choice(system.kept), 0
        wrong: list[str] = []
        try:
            self._mortals = [self._born(storm, index, kept) for index in range(storm.processes)]
            for _ in range(storm.kills):
                wrong += self._wait(storm)
                if wrong or self._context.done:
                    break
                counts.inside += self._strike(storm, kept)
                counts.kills += 1
        finally:
            for mortal in self._mortals:
                mortal.kill()
        wrong += [failure for mortal in self._mortals for failure in mortal.failures()]
        self._mortals = []
        marks = ledger.marks()
        expected = system.expect(marks)
        expected.died()
        seen = system.observe(self._path, marks)
        wrong += seen.problems + system.compare(seen, expected, expected, Crash.TORN)
        counts.states += 1
        counts.acknowledged += expected.promised
        if wrong:
            keep_case(self._context, self._row, "a storm", {}, wrong, self._path)
        system.remove(self._path, self._memory)
        counts.seconds += time.monotonic() - begun
        self._context.tell()

    def _born(self, storm: Storm, index: int, kept: str) -> Mortal:
        self._life += 1
        life = self._life
        if self._system.mixes:
            kept = self._chance.choice(self._system.kept)

        def live() -> None:
            signal.alarm(0)  # it runs until it is killed
            arm(NOTHING, self._under, self._slots[index])
            storm.live(self._path, Who(self._ledger, life, random.Random(f"{self._row}/{life}")), kept)

        return Mortal(live)

    def _wait(self, storm: Storm) -> list[str]:
        """Wait for progress; return the violation if there is none, or if a process ended without being killed."""
        if storm.processes == 1 and self._chance.random() < _SOON:
            time.sleep(self._chance.random() * _SOON_SECONDS)
            return []
        before = self._ledger.count
        wanted = before + self._chance.randrange(2 * storm.marks)
        deadline = time.monotonic() + _PROGRESS_SECONDS
        while self._ledger.count <= wanted:
            os.sched_yield()
            ended = [mortal for mortal in self._mortals if mortal.poll()]
            if ended:
                return [failure for mortal in ended for failure in mortal.failures()] or ["a process has ended"]
            if time.monotonic() > deadline:
                return [f"{self._ledger.count - before} marks were made in {_PROGRESS_SECONDS:.0f} s by all processes"]
        return []

    def _strike(self, storm: Storm, kept: str) -> bool:
        """Kill a process and replace it; return whether it held a lock that the others want."""
        if storm.processes > 1 and self._chance.random() < _STOPS:
            self._pause(storm)
        index = self._stop_one(storm)
        held = storm.processes > 1 and bool(self._slots[index].locked)
        mortal = self._mortals[index]
        ended = mortal.poll()
        mortal.kill()
        self._slots[index].locked = 0
        if not ended:
            self._mortals[index] = self._born(storm, index, kept)
        return held

    def _stop_one(self, storm: Storm) -> int:
        """Stop a process and return its index: if there are several, most often one that holds the lock."""
        inside = storm.processes > 1 and self._chance.random() < _INSIDE_SHARE
        for _ in range(_ATTEMPTS):
            among = self._slots.locked() if inside else range(storm.processes)
            if not among:
                continue
            index = self._chance.choice(list(among))
            mortal = self._mortals[index]
            mortal.stop()
            if mortal.status is not None or not inside or self._slots[index].locked:
                return index
            mortal.go_on()
        index = self._chance.randrange(storm.processes)
        self._mortals[index].stop()
        return index

    def _pause(self, storm: Storm) -> None:
        """Stop a process until some others have made a hundred marks, or for a moment if it holds the lock."""
        mortal = self._chance.choice(self._mortals)
        mortal.stop()
        until = time.monotonic() + _STOP_SECONDS
        before = self._ledger.count
        while time.monotonic() < until and self._ledger.count < before + storm.marks:
            os.sched_yield()
        mortal.go_on()
