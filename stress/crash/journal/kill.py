"""Kill: a process that has a journal dies at each of its calls in turn, and in storms; the page cache lives.

What must be true after each death: what was promised is there; each one's calls took effect in their order, up to some
call; no transaction is half there, and what was deleted is gone; nothing is told as damage; what had not ended is told
as failed, once; and the journal goes on.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from stress.crash.aftermath import Again
from stress.crash.context import Context
from stress.crash.journal.aftermath import judge_journal, remove_journal
from stress.crash.journal.expectation import Crash
from stress.crash.journal.ledger import JournalLedger, JournalOwn
from stress.crash.journal.options import OPTIONS
from stress.crash.journal.scenarios import SCENARIOS, Scenario
from stress.crash.journal.storm import Storm
from stress.crash.mortal import Mortal
from stress.crash.one_case import one_case
from stress.crash.striker import Action, Strike, arm
from stress.crash.sweeps import by_chance

PLACES = ("on nothing", "on a journal")
_ACTIONS = (Action.KILL_BEFORE, Action.KILL_AFTER, Action.KILL_WITHIN)
_CALLS_ABOUT = 250
_STEP_MAX = 6  # of calls, so that a short run as well comes to the end of each kind; a long one comes again
_ROOM = 4_000
_BEFORE, _KILLED, _KILLED_AGAIN = range(3)
_STORM_SHARE = 0.3


@dataclass(frozen=True)
class Case:
    """One death, or two: as a log's; see `stress.crash.kill`.  kept: a name of `OPTIONS`."""

    scenario: str
    place: str
    kept: str
    action: int
    first: int = 0
    before: int = -1

    @property
    def row(self) -> str:
        """Of the tally."""
        return f"journal-kill/{'recovery' if self.before >= 0 else self.scenario}"

    @property
    def name(self) -> str:
        """As it is told."""
        end = f"{Action(self.action).name} {self.first}"
        if self.before >= 0:
            return f"loading after {self.scenario} {self.place} ({self.kept}) killed at {self.before}, {end}"
        return f"{self.scenario} {self.place} ({self.kept}), {end}"


class JournalKill:
    """Sweeps and storms in turn."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/journal-kill")
        self._path = context.scratch / "killed-journal" / "journal"
        self._path.parent.mkdir(exist_ok=True)
        self._ledger = JournalLedger(3, _ROOM)
        self._storm = Storm(context, self._path)
        self._sweeps: Iterator[Case] = iter(())
        self._spent = {"storm": 0.0, "sweep": 0.0}

    def turn(self) -> None:
        """A storm, or the sweep of one scenario."""
        begun = time.monotonic()
        if self._spent["storm"] / _STORM_SHARE < self._spent["sweep"] / (1 - _STORM_SHARE):
            name = "storm"
            self._storm.turn()
        else:
            name = "sweep"
            case = self._next_sweep()
            case = replace(case, first=self._chance.randrange(_STEP_MAX))
            while self.one(case) and not self._context.done:
                case = replace(case, first=case.first + self._chance.randint(1, 2 * _STEP_MAX))
        self._spent[name] += time.monotonic() - begun
        self._context.tell()

    def _next_sweep(self) -> Case:
        """The first case of a sweep, which goes on until there are no more calls to be killed at."""
        case = next(self._sweeps, None)
        if case is not None:
            return case
        sweeps = []
        for name in SCENARIOS:
            for place in PLACES:
                sweeps += [Case(name, place, kept, action) for kept in OPTIONS for action in _ACTIONS]
                before, kept = self._chance.randrange(_CALLS_ABOUT), self._chance.choice([*OPTIONS])
                sweeps.append(Case(name, place, kept, self._chance.choice(_ACTIONS), before=before))
        self._sweeps = by_chance(sweeps, self._chance)
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """One case and what comes of it; whether there was a death, so that the next call is to be tried."""
        context = self._context
        self._ledger.clear()
        killed = False
        with one_case(context, case, self._path, remove_journal) as tried:
            if case.place == "on a journal":
                SCENARIOS["reuse"](self._path, OPTIONS[case.kept], self._ledger.writers[_BEFORE], _BEFORE)
            killed, tried.wrong = self._kill(case)
            # What lies in one page of memory is written whole, or not at all.
            crash = Crash.TORN if case.kept == "blocks" else Crash.KILL
            found = judge_journal(self._path, OPTIONS[case.kept], self._ledger.expectation(), crash)
            tried.wrong += found[1]
        tried.counts.states += 1
        tried.counts.kills += killed + (case.before >= 0)
        tried.counts.acknowledged += self._ledger.promised
        context.tell()
        return killed

    def _kill(self, case: Case) -> tuple[bool, list[str]]:
        strike = Strike(Action(case.action), case.first)
        mortals = []
        if case.before >= 0:
            first = Strike(Action.KILL_BEFORE, case.before)
            mortals.append(self._mortal(SCENARIOS[case.scenario], _KILLED, case.kept, first))
            mortals.append(self._mortal(SCENARIOS["only_load"], _KILLED_AGAIN, case.kept, strike))
        else:
            mortals.append(self._mortal(SCENARIOS[case.scenario], _KILLED, case.kept, strike))
        return mortals[-1].killed, [failure for mortal in mortals if (failure := mortal.failure())]

    def _mortal(self, scenario: Scenario, writer: int, kept: str, strike: Strike) -> Mortal:
        """Its life and its end."""
        own: JournalOwn = self._ledger.writers[writer]

        def work() -> None:
            arm(strike, str(self._path))
            scenario(self._path, OPTIONS[kept], own, writer)

        mortal = Mortal(work, own)
        mortal.wait()
        return mortal

    def storm(self) -> None:
        """One round."""
        self._storm.turn()


def replay(folder: Path, scratch: Path) -> list[str]:
    """Try a kept case again, more than once, and at the calls beside it; what is wrong."""
    case = json.loads((folder / "part.json").read_text())["case"]
    context = Again(scratch, os.environ["BINLOG_RECORDER_MEMORY"])
    kill = JournalKill(context)
    number = 0
    while not context.wrong and not context.done:
        if case:
            kept = Case(**case)
            kill.one(replace(kept, first=max(kept.first + (0, 0, 1, -1, 2, -2)[number % 6], 0)))
            number += 1
        else:
            kill.storm()
    return context.wrong
