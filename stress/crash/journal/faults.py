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
import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from binlog.errors import BinlogError
from binlog.journal.journal import Journal
from stress.crash.aftermath import Again, keep_log
from stress.crash.context import Context
from stress.crash.fault_scenarios import FAULTS, NO_SPACE, Fared, Fault, run
from stress.crash.journal import programs
from stress.crash.journal.actor import Actor
from stress.crash.journal.aftermath import judge_journal, remove_journal
from stress.crash.journal.expectation import Crash
from stress.crash.journal.judge import Observation, observe, others
from stress.crash.journal.ledger import JournalLedger, JournalOwn
from stress.crash.journal.loads import JUDGES, open_journal
from stress.crash.journal.marks import MarkKind, plain_mark
from stress.crash.journal.options import OPTIONS
from stress.crash.journal.programs import Step
from stress.crash.journal.scenarios import SCENARIOS as KILLED
from stress.crash.lost import LossyDisk, names_in
from stress.crash.marks import Recorder
from stress.crash.mortal import Mortal
from stress.crash.recording import used_part
from stress.crash.striker import Action, Kind, Slots, Strike, arm, disarm
from stress.crash.trace import Event, parse_trace

_KINDS = {
    Kind.READ, Kind.WRITE, Kind.DATA_SYNC, Kind.SYNC, Kind.OPEN, Kind.LINK, Kind.UNLINK, Kind.MAKE_DIRECTORY, Kind.LOCK,
}  # fmt: skip
_CALLS_ABOUT = 250
_STEP_MAX = 3
_TRIES = 120  # of them a threads' turn that did it once may come again
_BEFORE, _KILLED, _FAULTED = range(3)
_ROOM = 4_000

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


class JournalFaults:
    """Sweeps over the faults of a scenario, in an order of chance."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/journal-faults")
        self._path = context.scratch / "faulted-journal" / "journal"
        self._path.parent.mkdir(exist_ok=True)
        self._ledger = JournalLedger(3, _ROOM)
        self._slots = Slots(1)
        self._recorder = Recorder()
        self._sweeps: Iterator[Case] = iter(())

    def turn(self) -> None:
        """One fault of one scenario, at each place."""
        case = self._next_sweep()
        while self.one(case) and not self._context.done:
            case = replace(case, first=case.first + self._chance.randint(1, _STEP_MAX))
        self._context.tell()

    def _next_sweep(self) -> Case:
        case = next(self._sweeps, None)
        if case is not None:
            return case
        sweeps = []
        for scenario, kept, name, for_ever in itertools.product(SCENARIOS, OPTIONS, FAULTS, (False, True)):
            if _KINDS.issuperset(FAULTS[name].kinds):
                killed_at = self._chance.randrange(_CALLS_ABOUT) if self._chance.random() < 0.3 else -1
                sweeps.append(Case(scenario, kept, name, for_ever, killed_at=killed_at))
        self._chance.shuffle(sweeps)
        # Of failed syncs there is more to see than of all the rest.
        syncs = [case for case in sweeps if FAULTS[case.fault].of_syncs]
        rest = [case for case in sweeps if not FAULTS[case.fault].of_syncs]
        pairs = itertools.zip_longest(syncs, rest)
        self._sweeps = iter([case for pair in pairs for case in pair if case is not None])
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """One run with one fault; whether it struck, so that the next place is to be tried."""
        context, fault = self._context, FAULTS[case.fault]
        counts = context.tally.row(case.row)
        begun = time.monotonic()
        context.current.set(f"journal-faults: {case.name}")
        self._ledger.clear()
        trace = context.scratch / "faulted-journal" / "trace"
        if fault.of_syncs:
            self._recorder.start(str(trace))
        wrong: list[str] = []
        try:
            seen, wrong = self._run(case, fault)
            if fault.of_syncs:
                self._recorder.stop()
                wrong += self._cut_power(case, parse_trace(used_part(trace)), seen)
        except BinlogError as error:
            wrong.append(f"{type(error).__name__}: {error}")
        finally:
            self._recorder.stop()
            trace.unlink(missing_ok=True)
            if wrong:
                keep_log(context, case.row, case.name, asdict(case), wrong, self._path)
            remove_journal(self._path)
        struck = bool(self._slots[0].struck)
        counts.states += struck
        counts.seconds += time.monotonic() - begun
        context.tell()
        return struck

    def _run(self, case: Case, fault: Fault) -> tuple[Observation, list[str]]:
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
        self._slots[0].struck = 0

        def live() -> None:
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
            fared = run(open_, [step] * count, last, disarm, background_tells=True)
            own.say(json.dumps([fared.errors, fared.wrong, fared.opened, fared.poisoned]))

        mortal = Mortal(live, own)
        mortal.wait()
        failure = mortal.failure()
        return Fared([], [failure]) if failure else Fared(*json.loads(own.text))

    def _cut_power(self, case: Case, events: list[Event], before: Observation) -> list[str]:
        """The power is cut after all that: what the journal had when it was loaded anew, and closed, is on the disk."""
        disk = LossyDisk()
        disk.take(events)
        path = self._path.with_name("after-power-cut")
        try:
            for name, inode in names_in(self._path).items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(disk.image(inode, self._chance))
            after = observe(path, OPTIONS[case.kept], writer=JUDGES[1])
        finally:
            remove_journal(path)
        wrong = [*after.problems, *after.first.wrong]
        if (
            others(after.first) != others(before.last)
            or after.first.prepared != before.last.prepared
            or after.first.failed
        ):
            wrong.append("what was there when the journal was closed is not there, or is something else")
        return [f"after a power cut: {line}" for line in wrong]


def _compare(fault: Fault, fared: Fared) -> list[str]:
    """Whether the errors are those that the fault may have."""
    told = sorted(set(fared.errors))
    if fault.error in (0, errno.EINTR) and told:
        return [f"nobody was to be told, and there was {', '.join(told)}"]
    # Space is only needed for new files; where it lacks for a write into one that was filled, or in the middle of a
    # compaction's renames, nobody can go on.
    if fault.error in NO_SPACE and not fault.of_syncs and set(told) - {"FullError", "PoisonedError"}:
        return [f"there is no space, and there was {', '.join(told)}"]
    return []


def replay(folder: Path, scratch: Path) -> list[str]:
    """Try a kept case again, more than once, and at the calls beside it: the threads may take turns otherwise.

    What is wrong.
    """
    case = Case(**json.loads((folder / "part.json").read_text())["case"])
    context = Again(scratch, os.environ["BINLOG_RECORDER_MEMORY"])
    faults = JournalFaults(context)
    for off in itertools.islice(itertools.cycle((0, 0, 1, -1, 2, -2, 3, -3, 4, -4)), _TRIES):
        faults.one(replace(case, first=max(case.first + off, 0)))
        if context.wrong:
            break
    return [f"{case.name}: {line}" for line in context.wrong]
