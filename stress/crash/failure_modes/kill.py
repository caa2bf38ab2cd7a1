"""Kill: processes die at each of their system calls, and in storms; the page cache and shared memory survive.

After each death every call that returned has taken effect, the system's own rules hold, and both the next process and
any process that was waiting continue.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from errno import EIO
from pathlib import Path
from typing import Any

from binlog.errors import PoisonedError
from stress.crash.failure_modes.case import ReplayContext, load_case, run_case, shuffled
from stress.crash.failure_modes.storm import Storms
from stress.crash.marks import Ledger
from stress.crash.preloaded.injector import NOTHING, Action, Injection, Kind, arm
from stress.crash.system import ProcessContext, Scenario, System
from stress.crash.workers.context import Context
from stress.crash.workers.victim_process import VictimProcess, common_path

ON_NOTHING, ON_SOMETHING, WITH_ANOTHER = "on nothing", "on something", "with another process"
_ACTIONS = (Action.KILL_BEFORE, Action.KILL_AFTER, Action.KILL_WITHIN)
_CALLS_ABOUT = 200
_RECOVERIES = 0.3
_SYNCS = (Kind.DATA_SYNC, Kind.SYNC)
_SYNCS_ABOUT = 8  # made by a process that opens something and takes a few steps
_OFTEN = 3  # sweeps of each death that a system arranges, which have few calls
_FIRST_STRIDE = 12  # of the first sweep of each row, so that a short run reaches the end of each kind


@dataclass(frozen=True)
class Case:
    """One death, or two.

    part: of the system.  scenario: of the process, or a name in System.deaths.  place: the state before it.
    variant: of the system.
    first: the call at which it dies; if negative, a replay tries each call in turn.
    before: if not negative, a process died at that call first, and the one that dies now opens its files.
    failed: if not negative, this sync of a process failed in the scenario first; the process that continues dies, and
        then one more dies at a sync.
    """

    part: str
    scenario: str
    place: str
    variant: str
    action: int
    seed: int
    first: int = 0
    before: int = -1
    failed: int = -1
    rows_by_variant: bool = field(default=False, repr=False)

    @property
    def row(self) -> str:
        """The row in the tally."""
        if self.failed >= 0:
            return f"{self.part}/poisoned"
        return (
            f"{self.part}/{'recovery' if self.before >= 0 else self.variant if self.rows_by_variant else self.scenario}"
        )

    @property
    def name(self) -> str:
        """The name as printed."""
        after = f" after one killed at {self.before}" if self.before >= 0 else ""
        after += f" after sync {self.failed} of one failed" if self.failed >= 0 else ""
        variant = f" ({self.variant})" if self.variant else ""
        return (
            f"{self.scenario} {self.place}{variant}{after}, {Action(self.action).name} {self.first}, seed {self.seed}"
        )


class Kill:
    """Sweeps over the calls of each scenario, alternating with storms."""

    def __init__(self, context: Context, system: System[Any, Any], part: str) -> None:
        self._context = context
        self._system = system
        self._part = part
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/{part}")
        folder = context.scratch / part
        folder.mkdir(exist_ok=True)
        self._path = folder / system.noun
        self._memory = system.memory or context.job.memory
        self._under = common_path(self._path, self._memory)
        self._ledger = Ledger()
        self._storms = Storms(context, system, part, self._path)
        self._sweeps: Iterator[Case] = iter(())
        self._rows: set[str] = set()
        self._spent = {"storm": 0.0, "sweep": 0.0}

    def run_slice(self) -> None:
        """Run a storm, or the sweep of one scenario."""
        begun = time.monotonic()
        share = self._system.storm.share if self._system.storm else 0.0
        if self._spent["storm"] * (1 - share) < self._spent["sweep"] * share:
            name = "storm"
            self._storms.run_slice()
        else:
            name = "sweep"
            case = self._next_sweep()
            stride = self._system.stride if case.row in self._rows else _FIRST_STRIDE
            self._rows.add(case.row)
            case = replace(case, first=self._chance.randrange(stride))
            while self.one(case) and not self._context.done:
                case = replace(case, first=case.first + self._chance.randint(1, 2 * stride - 1))
        self._spent[name] += time.monotonic() - begun

    def _next_sweep(self) -> Case:
        """Return the first case of the next sweep, which ends when there are no more calls to kill at."""
        case = next(self._sweeps, None)
        if case is not None:
            return case
        system, chance = self._system, self._chance
        places = (ON_NOTHING, ON_SOMETHING, *[WITH_ANOTHER] * system.shared)
        sweeps = []
        for scenario, variant, action in itertools.product(system.scenarios, system.variants, _ACTIONS):
            seed, place = chance.randrange(1 << 30), chance.choice(places)
            case = Case(self._part, scenario, place, variant, action, seed, rows_by_variant=system.rows_by_variant)
            sweeps.append(case)
            if chance.random() < _RECOVERIES:
                sweeps.append(replace(case, before=chance.randrange(_CALLS_ABOUT)))
            if scenario == system.fails_first:
                sweeps.append(replace(case, failed=chance.randrange(_SYNCS_ABOUT)))
        for death, action in itertools.product(system.deaths, _ACTIONS):
            sweeps += [Case(self._part, death, ON_SOMETHING, system.variants[0], action, 0)] * _OFTEN
        self._sweeps = shuffled(sweeps, chance)
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """Run one case and check the result; return whether the process died, so that the next call is tried."""
        system, ledger = self._system, self._ledger
        ledger.clear()
        killed = False
        with run_case(self._context, case, self._path, lambda: system.remove(self._path, self._memory)) as outcome:
            killed, outcome.wrong = self._run(case)
            marks = ledger.marks()
            expected = system.expect(marks)
            expected.died()
            seen = system.observe(self._path, marks)
            outcome.wrong += seen.problems + system.compare(seen, expected, expected, system.crash_of(case.variant))
            outcome.counts.acknowledged += expected.promised
            outcome.counts.states += 1
            outcome.counts.kills += killed + (case.before >= 0) + (case.failed >= 0)
        return killed

    def _run(self, case: Case) -> tuple[bool, list[str]]:
        """Run the processes of a case; return whether the victim died, and the failures of all of them."""
        system = self._system
        with ExitStack() as closing:
            if case.place == WITH_ANOTHER:
                other = system.open(self._path, self._process_context(case, 1), case.variant)
                closing.callback(other.close)
                closing.callback(other.append_one)
                other.append_one()
            elif case.place == ON_SOMETHING:
                system.run_scenario(
                    self._path, system.scenarios[system.first], self._process_context(case, 1), case.variant
                )
            if case.scenario in system.deaths:
                injection = Injection(Action(case.action), case.first)
                return system.deaths[case.scenario](self._path, self._ledger, self._under, injection)
            victims = [
                (self._run_victim(case, scenario, process_number, injection), dies)
                for process_number, (scenario, injection, dies) in enumerate(self._process_plans(case), 2)
            ]
        killed = any(victim.killed for victim, dies in victims if dies)
        return killed, [failure for victim, _ in victims for failure in victim.failures()]

    def _process_plans(self, case: Case) -> list[tuple[Scenario, Injection, bool]]:
        """Return each process's scenario and injection, and whether the sweep ends when that no longer kills it."""
        scenarios = self._system.scenarios
        scenario = scenarios[case.scenario]
        injection = Injection(Action(case.action), case.first)
        after = [(scenarios[scenario.after], NOTHING, False)] if scenario.after else []
        if case.failed >= 0:
            failing = Injection(Action.FAIL, case.failed, _SYNCS, error=EIO)
            dying = Injection(Action.KILL_BEFORE, case.first % _SYNCS_ABOUT, _SYNCS)
            again = scenarios[scenario.after]
            return [(scenario, failing, False), (again, injection, True), (again, dying, False), *after]
        if case.before >= 0:
            opening = scenarios[self._system.recovers or case.scenario]
            return [(scenario, Injection(Action.KILL_BEFORE, case.before), False), (opening, injection, True), *after]
        return [(scenario, injection, True), *after]

    def _process_context(self, case: Case, process_number: int) -> ProcessContext:
        return ProcessContext(
            self._ledger, process_number, random.Random(f"{case.seed}/{process_number}"), self._ledger.marks()
        )

    def _run_victim(self, case: Case, scenario: Scenario, process_number: int, injection: Injection) -> VictimProcess:
        """Run one process to its end."""

        def work() -> None:
            arm(injection, self._under)
            with suppress(PoisonedError) if injection.action is Action.FAIL else nullcontext():
                self._system.run_scenario(
                    self._path, scenario, self._process_context(case, process_number), case.variant
                )

        victim = VictimProcess(work)
        victim.wait()
        return victim

    def storm(self) -> None:
        """Run one storm."""
        self._storms.run_slice()


def replay(system: System[Any, Any], part: str, folder: Path, scratch: Path) -> list[str]:
    """Run a saved case again, several times and at the calls next to it, or at each call; return the violations."""
    saved = load_case(folder)
    context = ReplayContext(scratch)
    kill = Kill(context, system, part)
    if saved and saved["first"] < 0:
        _at_each_call(kill, Case(**saved))
        return context.wrong
    number = 0
    while not context.wrong and not context.done:
        if saved:
            case = Case(**saved)
            kill.one(replace(case, first=max(case.first + (0, 0, 1, -1, 2, -2)[number % 6], 0)))
            number += 1
        else:
            kill.storm()
    return context.wrong


def _at_each_call(kill: Kill, case: Case) -> None:
    calls = itertools.count()
    deaths = sum(1 for _ in itertools.takewhile(lambda first: kill.one(replace(case, first=first)), calls))
    print(f"{case.scenario} {case.place}: a kill at each of {deaths} calls")
