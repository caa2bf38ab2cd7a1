"""Kill: processes die at each of their system calls in turn, and in storms; the page cache and shared memory live.

What must be true after each death: `check` is silent; the next writer opens the log and appends; every record that a
call returned for is there, once, where it was said to lie, in whatever mode (a process's death takes nothing, and what
it had staged is written by the next that opens the log); each call's records are all there or none, each writer's in
order; and who waited meanwhile got an answer.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from binlog import Writer
from binlog.errors import BinlogError
from stress.crash.aftermath import Again, judge_log, keep_log
from stress.crash.context import Context
from stress.crash.judge import LOCK_SECONDS, PREPARE_BYTES
from stress.crash.kill_scenarios import SCENARIOS, Scenario, drafts_again
from stress.crash.leader import one_leader
from stress.crash.ledger import Ledger, Own
from stress.crash.mortal import Mortal, common_path, remove_log
from stress.crash.poisoned import one_poisoned
from stress.crash.storm import Storm
from stress.crash.striker import NOTHING, Action, Slots, Strike, arm
from stress.crash.sweeps import by_chance

PLACES = ("on nothing", "on a log", "beside another")
_ACTIONS = (Action.KILL_BEFORE, Action.KILL_AFTER)
_SHARES = {"storm": 0.65, "sweep": 0.35}  # of this part's time: a storm's deaths come at random, so many are needed
_LEADER, _POISONED, _DRAFTS = "leader", "poisoned", "drafts"
_CALLS_ABOUT = 80
_CALLS_OF_DRAFTS_ABOUT = 330
_SYNCS_ABOUT = 7  # of one who opens a log, takes a turn and closes it
_WRITERS, _ROOM = 8, 400
_KILLED, _KILLED_AGAIN, _OTHER, _BEFORE, _AFTER = 0, 1, _WRITERS - 3, _WRITERS - 2, _WRITERS - 1


@dataclass(frozen=True)
class Case:
    """One death, or two.

    scenario, place: what was done, and on what.  action, first: how the process was killed, and at which of its calls.
    before: where it is not negative, the call before which the scenario's process was killed; `action` and `first` are
    then those of whoever opened the log after it.
    failed: of the scenario POISONED, the sync that failed.
    """

    scenario: str
    place: str
    action: int
    first: int = 0
    before: int = -1
    failed: int = -1

    @property
    def row(self) -> str:
        """Of the tally."""
        alone = self.scenario if self.scenario in (_LEADER, _POISONED) else "sweep"
        return f"kill/{'recovery' if self.before >= 0 else alone}"

    @property
    def name(self) -> str:
        """As it is told."""
        end = f"{Action(self.action).name} {self.first}"
        if self.failed >= 0:
            return f"a turn, sync {self.failed} of which fails, and taken again with {end}"
        if self.before >= 0:
            return f"opening after {self.scenario} {self.place} killed at {self.before}, {end}"
        return f"{self.scenario} {self.place}, {end}"


class Kill:
    """Sweeps and storms in turn."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/kill")
        self._log = context.scratch / "killed" / "log"
        self._log.parent.mkdir(exist_ok=True)
        self._under = common_path(self._log, context.job.memory)
        self._ledger = Ledger(_WRITERS, _ROOM)
        self._slots = Slots(_WRITERS)
        self._storm = Storm(context, self._log)
        self._sweeps: Iterator[Case] = iter(())
        self._spent = dict.fromkeys(_SHARES, 0.0)

    def turn(self) -> None:
        """A storm, or the sweep of one scenario."""
        name = min(self._spent, key=lambda name: self._spent[name] / _SHARES[name])
        begun = time.monotonic()
        if name == "storm":
            self._storm.turn()
        else:
            case = self._next_sweep()
            while self.one(case) and not self._context.done:
                case = replace(case, first=case.first + 1)
        self._spent[name] += time.monotonic() - begun
        self._context.tell()

    def _next_sweep(self) -> Case:
        """The first case of a sweep, which goes on until there are no more calls to be killed at."""
        case = next(self._sweeps, None)
        if case is not None:
            return case
        sweeps = [Case(name, place, action) for name in SCENARIOS for place in PLACES for action in _ACTIONS]
        sweeps += [Case(_LEADER, "on a log", action) for action in _ACTIONS] * 5
        for action in _ACTIONS:
            sweeps.append(Case(_POISONED, "on a log", action, failed=self._chance.randrange(_SYNCS_ABOUT)))
        for name in SCENARIOS:
            before = self._chance.randrange(_CALLS_OF_DRAFTS_ABOUT if name == _DRAFTS else _CALLS_ABOUT)
            sweeps.append(Case(name, self._chance.choice(PLACES[:2]), Action.KILL_BEFORE, before=before))
        self._sweeps = by_chance(sweeps, self._chance)
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """One case and what comes of it; whether there was a death, so that the next call is to be tried."""
        context = self._context
        counts = context.tally.row(case.row)
        begun = time.monotonic()
        context.current.set(f"kill: {case.name}")
        self._ledger.clear()
        own = self._ledger.writers
        beside: Writer | None = None
        killed = False
        wrong: list[str] = []
        try:
            if case.place != "on nothing":
                beside = Writer(self._log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS)
                own[_BEFORE].append_many(beside, 2)
                if case.place == "on a log":
                    beside.close()
                    beside = None
            killed, wrong = self._kill(case)
            wrong += judge_log(self._log, self._ledger, own[_AFTER], beside)
        except BinlogError as error:
            wrong.append(f"{type(error).__name__}: {error}")
        finally:
            if beside is not None:
                beside.close()
            if wrong:
                keep_log(context, case.row, case.name, asdict(case), wrong, self._log)
            remove_log(self._log, context.job.memory)
        counts.states += 1
        counts.kills += killed + (case.before >= 0)
        counts.acknowledged += self._ledger.told
        counts.seconds += time.monotonic() - begun
        context.tell()
        return killed

    def _kill(self, case: Case) -> tuple[bool, list[str]]:
        strike = Strike(Action(case.action), case.first)
        own = self._ledger.writers
        if case.scenario == _LEADER:
            return one_leader(self._log, self._ledger, self._slots, self._under, strike)
        if case.scenario == _POISONED:
            return one_poisoned(self._log, own[_KILLED], own[_KILLED_AGAIN], self._under, case.failed, strike)
        mortals = []
        if case.before >= 0:
            first = Strike(Action.KILL_BEFORE, case.before)
            mortals.append(self._mortal(SCENARIOS[case.scenario], own[_KILLED], first))
            mortals.append(self._mortal(SCENARIOS["only_open"], own[_KILLED_AGAIN], strike))
        else:
            mortals.append(self._mortal(SCENARIOS[case.scenario], own[_KILLED], strike))
        killed = mortals[-1].killed
        if case.scenario == _DRAFTS:
            # What was not to be in the log is in the way only of who goes on to the file that it has the name of.
            first_other = bool(case.first % 2)
            again = partial(drafts_again, other=own[_OTHER], first_other=first_other)
            mortals.append(self._mortal(again, own[_KILLED], NOTHING))
        return killed, [failure for mortal in mortals if (failure := mortal.failure())]

    def _mortal(self, scenario: Scenario, own: Own, strike: Strike) -> Mortal:
        """Its life and its end."""

        def work() -> None:
            arm(strike, self._under)
            scenario(self._log, own)

        mortal = Mortal(work, own)
        mortal.wait()
        return mortal

    def storm(self) -> None:
        """One round."""
        self._storm.turn()


def replay(folder: Path, scratch: Path) -> list[str]:
    """Try a kept case again, more than once where chance has a part in it; what is wrong."""
    case = json.loads((folder / "part.json").read_text())["case"]
    context = Again(scratch, os.environ["BINLOG_RECORDER_MEMORY"])
    kill = Kill(context)
    while not context.wrong and not context.done:
        if case:
            kill.one(Case(**case))
        else:
            kill.storm()
    return context.wrong
