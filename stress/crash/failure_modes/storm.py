"""Storms: processes die at random moments and are replaced at once; of several, some are stopped for a while.

If there are several, the victim is stopped before it is killed, so that the harness knows whether it held a file's
lock; more than half of the time a process that does is chosen.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from stress.crash.failure_modes.case import save_case
from stress.crash.marks import Ledger
from stress.crash.preloaded.injector import NOTHING, Slots, arm
from stress.crash.system import Crash, ProcessContext, Storm, System
from stress.crash.workers.context import Context
from stress.crash.workers.victim_process import VictimProcess, common_path

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
        self._victims: list[VictimProcess] = []
        self._started: Counter[int] = Counter()  # by the process's place among the storm's
        if system.storm:
            self._slots = Slots(system.storm.processes)

    def run_slice(self) -> None:
        """Run one storm."""
        system, storm, ledger = self._system, self._system.storm, self._ledger
        assert storm is not None
        counts = self._context.tally.row(self._row)
        begun = time.monotonic()
        self._context.current.set("a storm of kills")
        ledger.clear()
        counts.runs += 1
        variant = self._chance.choice(system.variants)
        self._started.clear()
        wrong: list[str] = []
        try:
            self._victims = [self._start(storm, index, variant) for index in range(storm.processes)]
            for _ in range(storm.kills):
                wrong += self._wait(storm)
                if wrong or self._context.done:
                    break
                counts.inside += self._kill_one(storm, variant)
                counts.kills += 1
        finally:
            for victim in self._victims:
                victim.kill()
        wrong += [failure for victim in self._victims for failure in victim.failures()]
        self._victims = []
        marks = ledger.marks()
        expected = system.expect(marks)
        expected.died()
        seen = system.observe(self._path, marks)
        wrong += seen.problems + system.compare(seen, expected, expected, Crash.TORN)
        counts.states += 1
        counts.acknowledged += expected.promised
        if wrong:
            save_case(self._context, self._row, "a storm", {}, wrong, self._path)
        system.remove(self._path, self._memory)
        counts.seconds += time.monotonic() - begun
        self._context.report_tally()

    def _start(self, storm: Storm, index: int, variant: str) -> VictimProcess:
        process_number = number_of(index, self._started[index], storm.processes)
        self._started[index] += 1
        if self._system.mixes_variants:
            variant = self._chance.choice(self._system.variants)

        def run() -> None:
            signal.alarm(0)  # it runs until it is killed
            arm(NOTHING, self._under, self._slots[index])
            storm.run(
                self._path,
                ProcessContext(self._ledger, process_number, random.Random(f"{self._row}/{process_number}")),
                variant,
            )

        return VictimProcess(run)

    def _wait(self, storm: Storm) -> list[str]:
        """Wait for progress; return the violation if there is none, or if a process ended without being killed."""
        if storm.processes == 1 and self._chance.random() < _SOON:
            time.sleep(self._chance.random() * _SOON_SECONDS)
            return []
        made = self._ledger.count
        wanted = made + self._chance.randrange(2 * storm.marks)
        deadline = time.monotonic() + _PROGRESS_SECONDS
        while (count := self._ledger.count) <= wanted:
            if count > made:  # however few they are: the machine may be busy
                made, deadline = count, time.monotonic() + _PROGRESS_SECONDS
            os.sched_yield()
            ended = [victim for victim in self._victims if victim.poll()]
            if ended:
                return [failure for victim in ended for failure in victim.failures()] or ["a process has ended"]
            if time.monotonic() > deadline:
                return [f"no process made a mark in {_PROGRESS_SECONDS:.0f} s"]
        return []

    def _kill_one(self, storm: Storm, variant: str) -> bool:
        """Kill a process and replace it; return whether it held a lock that the others want."""
        if storm.processes > 1 and self._chance.random() < _STOPS:
            self._pause(storm)
        index = self._stop_one(storm)
        held = storm.processes > 1 and bool(self._slots[index].locked)
        victim = self._victims[index]
        ended = victim.poll()
        victim.kill()
        self._slots[index].locked = 0
        if not ended:
            self._victims[index] = self._start(storm, index, variant)
        return held

    def _stop_one(self, storm: Storm) -> int:
        """Stop a process and return its index: if there are several, most often one that holds the lock."""
        inside = storm.processes > 1 and self._chance.random() < _INSIDE_SHARE
        for _ in range(_ATTEMPTS):
            among = self._slots.locked() if inside else range(storm.processes)
            if not among:
                continue
            index = self._chance.choice(list(among))
            victim = self._victims[index]
            victim.stop()
            if victim.status is not None or not inside or self._slots[index].locked:
                return index
            victim.resume()
        index = self._chance.randrange(storm.processes)
        self._victims[index].stop()
        return index

    def _pause(self, storm: Storm) -> None:
        """Stop a process until some others have made a hundred marks, or for a moment if it holds the lock."""
        victim = self._chance.choice(self._victims)
        victim.stop()
        until = time.monotonic() + _STOP_SECONDS
        before = self._ledger.count
        while time.monotonic() < until and self._ledger.count < before + storm.marks:
            os.sched_yield()
        victim.resume()


def number_of(index: int, deaths: int, processes: int) -> int:
    """Return the number of a process that takes the place of one that died; `deaths` is how many did there.

    A system takes the role of a process from its number, modulo the count of processes, so a replacement has the role
    of the one that died.  Otherwise only processes that wait for the others might be left, for those are killed less
    often.
    """
    return deaths * processes + index + 1
