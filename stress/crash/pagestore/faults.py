"""Faults: a call of a process that has a page store fails, or is short, at every place where it is made.

What must be true: there is an end; nothing but errors of binlog, no InternalError, and nothing told of damage; no
descriptor left; what was interrupted or short told to nobody; what was refused, as for lack of space, not done, and the
store goes on once there is space; after a failed write or sync all refused until it is opened anew.  Then all is there
that a call had returned for, as after a death; and what was found then is there still after a power cut, on a disk that
lacks what the failed sync was to cover.  Where the power is cut before that, at any call, what was promised until then
is there all the same, and each transaction whole.
"""

from __future__ import annotations

import errno
import random
from functools import partial
from pathlib import Path

from binlog.format.pagestore.names import PAGE_FILE
from stress.crash.fault_scenarios import FAULTS, Fared, Fault, run
from stress.crash.fault_sweeps import replay_sweeps
from stress.crash.life_faults import Case, LifeFaults, wrong_errors
from stress.crash.pagestore.actor import SCENARIOS, chosen, live, open_actor
from stress.crash.pagestore.judge import Expectation, Found, Observation, compare, observe
from stress.crash.paging.actor import Witness
from stress.crash.paging.judge import told
from stress.crash.paging.marks import Recorded, Twice, mark_of, values_of
from stress.crash.striker import Kind, disarm
from stress.crash.trace import Event
from stress.crash.trace import Kind as Traced
from stress.paging.ledger import Identity, Mark, What

_FULL_DISKS = [
    Fault((Kind.ALLOCATE, Kind.WRITE), errno.ENOSPC, PAGE_FILE),
    Fault((Kind.OPEN, Kind.WRITE), errno.ENOSPC, ".free"),
]
"""Space lacks where it does on a disk: a log's writes go where there is some already."""

_FAULTS = {**FAULTS, **{fault.name: fault for fault in _FULL_DISKS}}

_BEGUN, _ANEW = (Mark(What.OPENED, 99, 0, tx, Identity(0, 0, 0)) for tx in range(2))
"""In a trace: from here on there may be faults; from here on the store is opened anew."""

_SOON, _SOON_COUNT = 10, 2
"""So few calls and marks behind a sync that failed, and behind such an opening, the power is cut, so often: later ones
may mend what is wrong."""


class PageStoreFaults(LifeFaults[Found | None]):
    """See the module."""

    part = "pagestore-faults"
    kind = "pagestore"
    scenarios = tuple(SCENARIOS)
    faults = _FAULTS

    def _live(self, scenario: str, witness: Witness, life: int, seed: str) -> None:
        live(self._path, Twice(witness), life, seed, *SCENARIOS[scenario])

    def _suffer(self, case: Case, fault: Fault, witness: Witness, life: int) -> Fared:
        chance = random.Random(case.seed)
        Recorded().mark(_BEGUN)
        self._arm(case, fault)
        return run(
            lambda: open_actor(self._path, Twice(witness), life, chance),
            chosen(*SCENARIOS[case.scenario], chance),
            lambda actor: actor.put(),
            disarm,
            background_tells=_may_poison(fault),
        )

    def _judge(self, case: Case, fault: Fault, fared: Fared, marks: list[Mark]) -> tuple[Found | None, list[str]]:
        expected = _expected(marks)
        expected.died()
        wrong = _compare(fault, fared)
        seen = Observation()
        with told(wrong):
            Recorded().mark(_ANEW)
            seen = observe(self._path, goes_on=False)
        return seen.found, wrong + seen.problems + compare(seen, expected, expected)

    def _cuts_power(self, case: Case, fault: Fault) -> bool:
        # Of a sync that was interrupted, and made again, a trace says that it failed, and the kernel has lost nothing.
        return fault.of_syncs or (case.killed_at >= 0 and {Kind.DATA_SYNC, Kind.SYNC}.isdisjoint(fault.kinds))

    def _cut_power(self, case: Case, events: list[Event], before: Found | None) -> list[str]:
        wrong = super()._cut_power(case, events, before)
        own = [values_of(_BEGUN), values_of(_ANEW)]
        begun, anew = (next(at for at, event in enumerate(events) if event.mark == mark) for mark in own)
        failed = next((at for at, event in enumerate(events) if event.kind is Traced.SYNC_FAILED), anew)
        cuts = [self._chance.randint(begun + 1, len(events))]
        for at in sorted({failed, anew}):
            soon = range(at + 1, min(at + _SOON, len(events)) + 1)
            cuts += self._chance.sample(soon, min(_SOON_COUNT, len(soon)))
        for cut in cuts:
            expected = _expected(
                [mark_of(each.mark) for each in events[:cut] if any(each.mark) and each.mark not in own]
            )
            wrong += self._behind_cut(events[:cut], partial(self._compare_in_between, expected))
        return wrong

    def _compare_after_cut(self, case: Case, path: Path, before: Found | None) -> list[str]:
        seen = observe(path)
        if seen.found != before:
            seen.problems.append(f"{before} was there when it was closed, and {seen.found} is now")
        return seen.problems

    def _compare_in_between(self, expected: Expectation, path: Path) -> list[str]:
        seen = observe(path, goes_on=False)
        wrong = [*seen.problems, *compare(seen, expected, expected)]
        return [f"after a power cut in between: {line}" for line in wrong]


def _expected(marks: list[Mark]) -> Expectation:
    expected = Expectation()
    for mark in marks:
        expected.add(mark)
    return expected


def _may_poison(fault: Fault) -> bool:
    """Whether the store may refuse all until it is opened anew: not where space lacks where it does on a disk."""
    return fault.of_syncs or not (fault.names_end or {Kind.WRITE}.isdisjoint(fault.kinds))


def _compare(fault: Fault, fared: Fared) -> list[str]:
    """Whether the errors are those that the fault may have."""
    wrong = wrong_errors(fault, fared)
    if "PoisonedError" in fared.errors and not _may_poison(fault):
        wrong.append("no write or sync failed, and there was PoisonedError")
    if "CorruptError" in fared.errors:
        wrong.append("nothing is damaged, and there was CorruptError")
    return wrong


replay = partial(replay_sweeps, PageStoreFaults, Case)
