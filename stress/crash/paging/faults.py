"""Faults: a call of a process that has a queue, or depages, fails, or is short, at every place where it is made.

What must be true: there is an end; nothing but errors of binlog, and no InternalError; no descriptor left; what was
interrupted or short told to nobody; what was refused, as for lack of space, not done; after a failed write or sync
all refused until it is opened anew; of what is depaged, whatever uses what has failed, the pages or the journal.  Then
all is there that a call had returned for, as after a death.  Where a sync failed the power is cut, on a disk that lacks
what that was to cover: before it is opened anew, soon behind the failed sync or at the end, and what was promised until
then to be durable must be there; and behind that, and what was got when it was opened must be there still.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import ClassVar

from stress.crash.fault_scenarios import Fared, Fault, run
from stress.crash.fault_sweeps import replay_sweeps
from stress.crash.life_faults import Case, LifeFaults, wrong_errors
from stress.crash.paging import depages, queues
from stress.crash.paging.actor import Scenario, Who, Witness
from stress.crash.paging.judge import compare, expectation_of, observe, told
from stress.crash.paging.marks import Twice, mark_of
from stress.crash.striker import disarm
from stress.crash.trace import Event
from stress.crash.trace import Kind as Traced
from stress.paging.ledger import Identity, Mark

_SOON = 12
"""So few calls and marks behind a sync that failed the power is cut, half of the time: later ones may mend it."""


class PagingFaults(LifeFaults[list[Identity]]):
    """Of queues: see the module.  acted: by whom, for each scenario."""

    part = "paging-faults"
    kind = "queue"
    scenarios = tuple(queues.SCENARIOS)
    acted: ClassVar[dict[str, Scenario]] = queues.SCENARIOS
    refuses_all: ClassVar[bool] = True

    def _live(self, scenario: str, witness: Witness, life: int, seed: str) -> None:
        self.acted[scenario].live(self._path, Twice(witness), life, seed)

    def _suffer(self, case: Case, fault: Fault, witness: Witness, life: int) -> Fared:
        scenario, chance = self.acted[case.scenario], random.Random(case.seed)
        wrong: list[str] = []
        self._arm(case, fault)
        fared = run(
            lambda: scenario.kind.open(self._path, Who(Twice(witness), life, chance, wrong)),
            scenario.chosen(chance),
            lambda actor: actor.put(),
            disarm,
            background_tells=True,
            refuses_all=self.refuses_all,
        )
        fared.wrong += wrong
        return fared

    def _judge(self, case: Case, fault: Fault, fared: Fared, marks: list[Mark]) -> tuple[list[Identity], list[str]]:
        wrong = wrong_errors(fault, fared)
        if fault.of_syncs:
            wrong += self._cut_before_opening(case, self._events())
        expected = expectation_of(marks)
        expected.died()
        found: list[Identity] = []
        with told(wrong):
            found = self.acted[case.scenario].kind.look(self._path)
        return found, wrong + compare(found, expected, expected)

    def _cut_before_opening(self, case: Case, events: list[Event]) -> list[str]:
        failed = [number for number, event in enumerate(events) if event.kind is Traced.SYNC_FAILED]
        if failed and self._chance.random() < 0.5:
            events = events[: failed[0] + self._chance.randint(1, _SOON)]
        expected = expectation_of([mark_of(event.mark) for event in events if any(event.mark)])

        def look(path: Path) -> list[str]:
            seen = observe(path, self.acted[case.scenario].kind)
            return seen.problems + compare(seen.found, expected, expected)

        return [f"after a power cut at once: {line}" for line in self._behind_cut(events, look)]

    def _compare_after_cut(self, case: Case, path: Path, before: list[Identity]) -> list[str]:
        seen = observe(path, self.acted[case.scenario].kind)
        if seen.found != before:
            seen.problems.append(f"{before} were there when it was closed, and {seen.found} are now")
        return seen.problems


class DepageFaults(PagingFaults):
    """Of pages that are depaged."""

    part = "depage-faults"
    kind = "depaged"
    scenarios = tuple(depages.FAULTED)
    acted = depages.FAULTED
    refuses_all = False  # its actors look at that
    step_max = 1
    places_about = 6  # so that a short run has many faults, also of calls of which there are few


replay = partial(replay_sweeps, PagingFaults, Case)
replay_depaging = partial(replay_sweeps, DepageFaults, Case)
