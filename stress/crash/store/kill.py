"""Kill: a process that has a store dies at each of its calls and stores in turn, and in storms; the page cache lives.

What must be true after each death, whatever the way of flushing: every message that a call returned for is there, where
it was said to lie, with pooled flush from shared memory; queues and keys have what the log has; nothing is behind its
end; and the store goes on.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from stress.crash.aftermath import Again
from stress.crash.context import Context
from stress.crash.mortal import Mortal, common_path
from stress.crash.one_case import one_case
from stress.crash.store.aftermath import POOL, judge_store, remove_store
from stress.crash.store.ledger import StoreLedger, StoreOwn
from stress.crash.store.options import options
from stress.crash.store.scenarios import SCENARIOS, Scenario
from stress.crash.store.storm import Storm
from stress.crash.striker import Action, Strike, arm
from stress.crash.sweeps import by_chance

PLACES = ("on nothing", "on a store")
_ACTIONS = (Action.KILL_BEFORE, Action.KILL_AFTER, Action.KILL_WITHIN)
_CALLS_ABOUT = 150
_STEP_MAX = 6  # of calls, so that a short run as well comes to the end of each kind; a long one comes again
_FIRST_STEP_MAX = 24  # of the first sweep of each kind, which a run of a few hundred states is to see all of
_ROOM = 200
_KILLED, _KILLED_AGAIN, _BEFORE = range(3)
_STORM_SHARE = 0.3


@dataclass(frozen=True)
class Case:
    """One death, or two: as a log's; see `stress.crash.kill`."""

    scenario: str
    place: str
    flush: str
    action: int
    first: int = 0
    before: int = -1

    @property
    def row(self) -> str:
        """Of the tally."""
        return "store-kill/recovery" if self.before >= 0 else f"store-kill/{self.flush}"

    @property
    def name(self) -> str:
        """As it is told."""
        end = f"{Action(self.action).name} {self.first}"
        if self.before >= 0:
            return f"opening after {self.scenario} {self.place} ({self.flush}) killed at {self.before}, {end}"
        return f"{self.scenario} {self.place} ({self.flush}), {end}"


class StoreKill:
    """Sweeps and storms in turn."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/store-kill")
        self._path = context.scratch / "killed-store" / "store"
        self._path.parent.mkdir(exist_ok=True)
        self._under = common_path(self._path, POOL)
        self._ledger = StoreLedger(3, _ROOM)
        self._storm = Storm(context, self._path)
        self._sweeps: Iterator[Case] = iter(())
        self._seen: set[str] = set()
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
            step_max = _STEP_MAX if case.row in self._seen else _FIRST_STEP_MAX
            self._seen.add(case.row)
            case = replace(case, first=self._chance.randrange(step_max))
            while self.one(case) and not self._context.done:
                case = replace(case, first=case.first + self._chance.randint(1, step_max))
        self._spent[name] += time.monotonic() - begun
        self._context.tell()

    def _next_sweep(self) -> Case:
        """The first case of a sweep, which goes on until there are no more calls to be killed at."""
        case = next(self._sweeps, None)
        if case is not None:
            return case
        sweeps = []
        for flush in Flush:
            for name in SCENARIOS:
                sweeps += [Case(name, place, flush.value, action) for place in PLACES for action in _ACTIONS]
                place, before = self._chance.choice(PLACES), self._chance.randrange(_CALLS_ABOUT)
                sweeps.append(Case(name, place, flush.value, self._chance.choice(_ACTIONS), before=before))
        self._sweeps = by_chance(sweeps, self._chance)
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """One case and what comes of it; whether there was a death, so that the next call is to be tried."""
        context = self._context
        self._ledger.clear()
        own = self._ledger.writers
        killed = False
        with one_case(context, case, self._path, remove_store) as tried:
            if case.place == "on a store":
                with MessageStore(self._path, options(Flush(case.flush))) as store:
                    own[_BEFORE].append(store, 0, 0)
                    own[_BEFORE].append(store, 0)
            killed, tried.wrong = self._kill(case)
            # Whoever opens it need not flush as the dead one did.
            tried.wrong += judge_store(self._path, self._ledger, [*Flush][case.first % 3])[1]
        tried.counts.states += 1
        tried.counts.kills += killed + (case.before >= 0)
        tried.counts.acknowledged += self._ledger.told
        context.tell()
        return killed

    def _kill(self, case: Case) -> tuple[bool, list[str]]:
        strike = Strike(Action(case.action), case.first)
        own = self._ledger.writers
        flush = Flush(case.flush)
        mortals = []
        if case.before >= 0:
            first = Strike(Action.KILL_BEFORE, case.before)
            mortals.append(self._mortal(SCENARIOS[case.scenario], own[_KILLED], flush, first))
            mortals.append(self._mortal(SCENARIOS["only_open"], own[_KILLED_AGAIN], flush, strike))
        else:
            mortals.append(self._mortal(SCENARIOS[case.scenario], own[_KILLED], flush, strike))
        return mortals[-1].killed, [failure for mortal in mortals if (failure := mortal.failure())]

    def _mortal(self, scenario: Scenario, own: StoreOwn, flush: Flush, strike: Strike) -> Mortal:
        """Its life and its end."""

        def work() -> None:
            arm(strike, self._under)
            scenario(self._path, own, flush)

        mortal = Mortal(work, own)
        mortal.wait()
        return mortal

    def storm(self) -> None:
        """One round."""
        self._storm.turn()


def replay(folder: Path, scratch: Path) -> list[str]:
    """Try a kept case again, more than once, for threads take turns as they like; what is wrong."""
    case = json.loads((folder / "part.json").read_text())["case"]
    context = Again(scratch, os.environ["BINLOG_RECORDER_MEMORY"])
    kill = StoreKill(context)
    while not context.wrong and not context.done:
        if case:
            kill.one(Case(**case))
        else:
            kill.storm()
    return context.wrong
