"""Kill: a process that has a queue, or a page store, dies at each of its calls in turn; the page cache lives.

What must be true after each death: what a call had returned for is so; the rest of what the judge says; and it
goes on.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stress.crash.aftermath import Again, keep_log
from stress.crash.context import Context
from stress.crash.ledger import AnyLedger, Part
from stress.crash.mortal import Mortal
from stress.crash.paging.actor import Witness
from stress.crash.striker import Action, Strike, arm
from stress.paging.ledger import Ledger, Mark

_ACTIONS = (Action.KILL_BEFORE, Action.KILL_AFTER, Action.KILL_WITHIN)
_STEP_MAX = 6  # of calls, so that a short run as well comes to the end of each kind; a long one comes again
_CALLS_ABOUT = 200
_BEFORE, _KILLED, _KILLED_AGAIN = 1, 2, 3


Scenario = Callable[[Path, Witness, int, str], None]
"""With the path, where marks go, which process it is, and a seed."""


@dataclass(frozen=True)
class Victim:
    """What is killed.

    part: the name of its kill part.  scenarios: what one process does, some of everything, and then the one that dies.
    judge: what is wrong with what a scenario left, by the marks, and how many messages or transactions were promised.
    """

    part: str
    scenarios: Mapping[str, tuple[Scenario, Scenario]]
    judge: Callable[[Path, str, list[Mark]], tuple[list[str], int]]


@dataclass(frozen=True)
class Case:
    """One death, or two.

    part: of the victim.  scenario: what the process does, after another one did some of everything.
    first: at which call it dies.  before: where it is not negative, a process before it died at that call.
    """

    part: str
    scenario: str
    action: int
    seed: int
    first: int = 0
    before: int = -1

    @property
    def row(self) -> str:
        """Of the tally."""
        return f"{self.part}/{'recovery' if self.before >= 0 else self.scenario}"

    @property
    def name(self) -> str:
        """As it is told."""
        after = f" after one killed at {self.before}" if self.before >= 0 else ""
        return f"{self.scenario}{after}, {Action(self.action).name} {self.first}, seed {self.seed}"


class LifeKill:
    """Sweeps over the calls of a scenario."""

    def __init__(self, context: Context, victim: Victim) -> None:
        self._context = context
        self._victim = victim
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/{victim.part}")
        self._folder = context.scratch / victim.part
        self._folder.mkdir(exist_ok=True)
        self._path = self._folder / "victim"
        self._own = AnyLedger(Part, 1, 0).writers[0]
        self._sweeps: Iterator[Case] = iter(())

    def turn(self) -> None:
        """The sweep of one scenario."""
        case = replace(self._next_sweep(), first=self._chance.randrange(_STEP_MAX))
        while self.one(case) and not self._context.done:
            case = replace(case, first=case.first + self._chance.randint(1, 2 * _STEP_MAX))
        self._context.tell()

    def _next_sweep(self) -> Case:
        case = next(self._sweeps, None)
        if case is not None:
            return case
        pairs = []
        for scenario in self._victim.scenarios:
            for action in _ACTIONS:
                seed, before = self._chance.randrange(1 << 30), self._chance.randrange(_CALLS_ABOUT)
                case = Case(self._victim.part, scenario, action, seed)
                pairs.append((case, replace(case, before=before)))
        self._chance.shuffle(pairs)
        # A sweep can be a hundred states long: so two workers begin with one of each kind, and short runs have both.
        order = 1 if self._context.job.worker % 2 == 0 else -1
        self._sweeps = iter([case for pair in pairs for case in pair[::order]])
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """One case and what comes of it; whether there was a death, so that the next call is to be tried."""
        context = self._context
        counts = context.tally.row(case.row)
        begun = time.monotonic()
        context.current.set(f"{case.part}: {case.name}")
        ledger = Ledger(self._folder / "ledger")
        try:
            killed, wrong = self._run(case, ledger)
            found, promised = self._victim.judge(self._path, case.scenario, ledger.marks())
            wrong += found
            if wrong:
                keep_log(context, case.row, case.name, asdict(case), wrong, self._path)
        finally:
            ledger.close()
            shutil.rmtree(self._path, ignore_errors=True)
            (self._folder / "ledger").unlink()
        counts.states += 1
        counts.kills += killed
        counts.acknowledged += promised
        counts.seconds += time.monotonic() - begun
        context.tell()
        return killed

    def _run(self, case: Case, ledger: Ledger) -> tuple[bool, list[str]]:
        self._victim.scenarios[case.scenario][0](self._path, ledger, _BEFORE, str(case.seed))
        mortals = []
        if case.before >= 0:
            mortals.append(self._mortal(case, ledger, _KILLED, Strike(Action.KILL_BEFORE, case.before)))
        mortals.append(self._mortal(case, ledger, _KILLED_AGAIN, Strike(Action(case.action), case.first)))
        return mortals[-1].killed, [failure for mortal in mortals if (failure := mortal.failure())]

    def _mortal(self, case: Case, ledger: Ledger, life: int, strike: Strike) -> Mortal:
        """Its life and its end."""

        def work() -> None:
            arm(strike, str(self._path))
            self._victim.scenarios[case.scenario][1](self._path, ledger, life, str(case.seed))

        mortal = Mortal(work, self._own)
        mortal.wait()
        return mortal


def replay(victim: Victim, folder: Path, scratch: Path) -> list[str]:
    """Try a kept case again, more than once, and at the calls beside it; what is wrong."""
    case = Case(**json.loads((folder / "part.json").read_text())["case"])
    context: Any = Again(scratch, os.environ["BINLOG_RECORDER_MEMORY"])
    kill = LifeKill(context, victim)
    number = 0
    while not context.wrong and not context.done:
        kill.one(replace(case, first=max(case.first + (0, 0, 1, -1, 2, -2)[number % 6], 0)))
        number += 1
    wrong: list[str] = context.wrong
    return wrong
