"""Faults: a call of a process that has a journal fails, or is short, at every place where it is made.

What must be true: there is an end; nothing but errors of binlog, and no InternalError; no descriptor left; what was
interrupted or short told to nobody; a record that was refused, as for lack of space, not there; after a failed write or
sync nothing appended, freed or compacted until the journal is loaded anew.  Then all is there that was promised, as
after a death; and what a load told then is there still after a power cut, on a disk that lacks what the failed sync was
to cover.
"""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from binlog.format.journal.names import COMPACTED_END, NEW_END
from binlog.journal.journal import Journal
from stress.crash.context import Context
from stress.crash.fault_scenarios import FAULTS, NO_SPACE, Fared, Fault, run
from stress.crash.fault_sweeps import FaultSweeps, replay_sweeps
from stress.crash.journal import programs
from stress.crash.journal.actor import Actor
from stress.crash.journal.aftermath import judge_journal
from stress.crash.journal.expectation import Crash
from stress.crash.journal.judge import Observation, observe, others
from stress.crash.journal.ledger import JournalLedger, JournalOwn
from stress.crash.journal.loads import JUDGES, open_journal
from stress.crash.journal.marks import MarkKind, plain_mark
from stress.crash.journal.options import OPTIONS
from stress.crash.journal.programs import Step
from stress.crash.journal.scenarios import SCENARIOS as KILLED
from stress.crash.mortal import Mortal
from stress.crash.striker import Action, Kind, Strike, arm, disarm

_KINDS = {
    Kind.READ, Kind.WRITE, Kind.DATA_SYNC, Kind.SYNC, Kind.OPEN, Kind.LINK, Kind.UNLINK, Kind.MAKE_DIRECTORY, Kind.LOCK,
}  # fmt: skip
_POISONING = {Kind.WRITE, Kind.LINK}
_CALLS_ABOUT = 250
_BEFORE, _KILLED, _FAULTED = range(3)
_ROOM = 4_000

_FULL_DISKS = [Fault((Kind.OPEN, Kind.WRITE), errno.ENOSPC, end) for end in (NEW_END, COMPACTED_END)]
"""Space lacks where it does on a disk: a file that was made has all of its own already."""

_FAULTS = {
    **{name: fault for name, fault in FAULTS.items() if _KINDS.issuperset(fault.kinds)},
    **{fault.name: fault for fault in _FULL_DISKS},
}

SCENARIOS: dict[str, tuple[Mapping[Step, int], int]] = {
    "records": (programs.RECORDS, 5),
    "transactions": (programs.TRANSACTIONS, 4),
    "reuse": (programs.REUSE, 12),
    "compaction": (programs.COMPACTION, 9),
}
"""Steps, and how many of them."""


@dataclass(frozen=True)
class Case:
    """One fault: `first` is from which call on it fails, or at which alone.

    killed_at: where it is not negative, a process was killed before that call beforehand, and its journal is loaded.
    """

    scenario: str
    kept: str
    fault: str
    for_ever: bool
    first: int = 0
    killed_at: int = -1

    @property
    def row(self) -> str:
        """Of the tally."""
        return f"journal-faults/{'recovery' if self.killed_at >= 0 else self.scenario}"

    @property
    def name(self) -> str:
        """As it is told."""
        name = f"{self.scenario} ({self.kept}), {self.fault} {'from' if self.for_ever else 'at'} {self.first}"
        return f"{name}, after one killed at {self.killed_at}" if self.killed_at >= 0 else name


class JournalFaults(FaultSweeps[Case, Observation]):
    """See the module."""

    part = "journal-faults"
    kind = "journal"
    step_max = 3
    faults = _FAULTS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._ledger = JournalLedger(3, _ROOM)

    def _all_sweeps(self) -> Iterator[Case]:
        for scenario, kept, name, for_ever in itertools.product(SCENARIOS, OPTIONS, _FAULTS, (False, True)):
            killed_at = self._chance.randrange(_CALLS_ABOUT) if self._chance.random() < 0.3 else -1
            yield Case(scenario, kept, name, for_ever, killed_at=killed_at)

    def _run(self, case: Case, fault: Fault) -> tuple[Observation, list[str]]:
        self._ledger.clear()
        options = OPTIONS[case.kept]
        KILLED["records"](self._path, options, self._ledger.writers[_BEFORE], _BEFORE)
        if case.killed_at >= 0:
            self._kill(case)
        fared = self._faulted(fault, case)
        seen, wrong = judge_journal(self._path, options, self._ledger.expectation(), Crash.KILL)
        return seen, fared.wrong + _compare(fault, fared) + wrong

    def _kill(self, case: Case) -> None:
        own: JournalOwn = self._ledger.writers[_KILLED]

        def live() -> None:
            arm(Strike(Action.KILL_BEFORE, case.killed_at), str(self._path))
            KILLED["compaction"](self._path, OPTIONS[case.kept], own, _KILLED)

        Mortal(live, own).wait()

    def _faulted(self, fault: Fault, case: Case) -> Fared:
        own: JournalOwn = self._ledger.writers[_FAULTED]

        def live() -> Fared:
            chance = random.Random(case.scenario)
            actor = Actor(own, _FAULTED)
            steps, count = SCENARIOS[case.scenario]

            def open_() -> Journal:
                own.mark(plain_mark(MarkKind.LOADING))
                journal, told = open_journal(self._path, OPTIONS[case.kept])
                for mark in told.marks():
                    own.mark(mark)
                actor.go_on_from(told)
                return journal

            def step(journal: Journal) -> None:
                programs.run(actor, journal, chance, steps, 1)
                actor.settle()

            def last(journal: Journal) -> None:
                actor.add(journal)

            arm(fault.strike(case.first, for_ever=case.for_ever), str(self._path), self._slots[0])
            return run(open_, [step] * count, last, disarm, background_tells=True)

        return self._fared(own, live)

    def _compare_after_cut(self, case: Case, path: Path, before: Observation) -> list[str]:
        after = observe(path, OPTIONS[case.kept], writer=JUDGES[1])
        wrong = [*after.problems, *after.first.wrong]
        if (
            others(after.first) != others(before.last)
            or after.first.prepared != before.last.prepared
            or after.first.failed
        ):
            wrong.append("what was there when the journal was closed is not there, or is something else")
        return wrong


def _compare(fault: Fault, fared: Fared) -> list[str]:
    """Whether the errors are those that the fault may have."""
    told = sorted(set(fared.errors))
    if fault.error in (0, errno.EINTR) and told:
        return [f"nobody was to be told, and there was {', '.join(told)}"]
    # Only where a write or a sync failed, or one of a compaction's renames, nobody can go on: also where what lacks is
    # space, which is needed for new files alone, but told of by writes into others too.
    may_poison = fault.of_syncs or not (fault.names_end or _POISONING.isdisjoint(fault.kinds))
    if "PoisonedError" in told and not may_poison:
        return ["no write or sync failed, and there was PoisonedError"]
    if fault.error in NO_SPACE and not fault.of_syncs and set(told) - {"FullError", "PoisonedError"}:
        return [f"there is no space, and there was {', '.join(told)}"]
    return []


replay = partial(replay_sweeps, JournalFaults, Case)
