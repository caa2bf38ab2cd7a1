"""Sweeps of faults over what a process does with something that it has open: each fault at each call, one at a time.

What it has is used by a process of its own, which meets the fault; then it is opened anew, and judged.  Where syncs
failed the power is cut after that, on a disk that lacks what they were to cover.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from stress.crash.aftermath import Again
from stress.crash.context import Context
from stress.crash.fault_scenarios import FAULTS, Fared, Fault
from stress.crash.ledger import Part
from stress.crash.lost import LossyDisk
from stress.crash.marks import Recorder
from stress.crash.mortal import Mortal
from stress.crash.one_case import Case, one_case, recording
from stress.crash.recording import used_part
from stress.crash.striker import Slots
from stress.crash.sweeps import spread
from stress.crash.trace import Event, parse_trace

_TRIES = 120  # of them a threads' turn that did it once may come again


class FaultCase(Case, Protocol):
    """One fault: `first` is from which call on it fails, or at which alone."""

    @property
    def fault(self) -> str: ...
    @property
    def for_ever(self) -> bool: ...
    @property
    def first(self) -> int: ...


CaseT = TypeVar("CaseT", bound=FaultCase)
SeenT = TypeVar("SeenT")


class FaultSweeps(ABC, Generic[CaseT, SeenT]):
    """Sweeps over the faults of a scenario, in an order of chance.

    faults: by their names.  part: its name.  kind: what is broken, in a word.  step_max: how far a sweep goes on at
    once, at most; places_about: further than that where it has more places than so many.
    """

    faults: ClassVar[Mapping[str, Fault]] = FAULTS
    part: ClassVar[str]
    kind: ClassVar[str]
    step_max: ClassVar[int] = 1
    places_about: ClassVar[int | None] = None

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/{self.part}")
        self._folder = context.scratch / f"faulted-{self.kind}"
        self._folder.mkdir(exist_ok=True)
        self._path = self._folder / self.kind
        self._trace = self._folder / "trace"
        self._slots = Slots(1)
        self._recorder = Recorder()
        self._sweeps: Iterator[CaseT] = iter(())

    @abstractmethod
    def _all_sweeps(self) -> Iterator[CaseT]:
        """The first case of each."""

    @abstractmethod
    def _run(self, case: CaseT, fault: Fault) -> tuple[SeenT, list[str]]:
        """One run with one fault: what was there when it was opened anew, and closed; and what is wrong."""

    @abstractmethod
    def _compare_after_cut(self, case: CaseT, path: Path, before: SeenT) -> list[str]:
        """What is wrong with what lies at a path after a power cut."""

    def _remove(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def turn(self) -> None:
        """One fault of one scenario, at each place."""
        case = self._next_sweep()
        while self.one(case) and not self._context.done:
            case = replace(case, first=case.first + self._chance.randint(1, self._step_max()))
        self._context.tell()

    def _step_max(self) -> int:
        if self.places_about is None:
            return self.step_max
        return max(self.step_max, 2 * int(self._slots[0].calls) // self.places_about)

    def _next_sweep(self) -> CaseT:
        case = next(self._sweeps, None)
        if case is not None:
            return case
        sweeps = list(self._all_sweeps())
        self._chance.shuffle(sweeps)
        # Of failed syncs there is more to see than of all the rest, and they are a few among many.
        syncs = [case for case in sweeps if self.faults[case.fault].of_syncs]
        rest = [case for case in sweeps if not self.faults[case.fault].of_syncs]
        rest = spread(rest, lambda case: self.faults[case.fault].kinds)  # there are many more of some than of others
        pairs = itertools.zip_longest(syncs, rest)
        self._sweeps = iter([case for pair in pairs for case in pair if case is not None])
        return next(self._sweeps)

    def one(self, case: CaseT) -> bool:
        """One run with one fault; whether it struck, so that the next place is to be tried."""
        fault = self.faults[case.fault]
        with (
            one_case(self._context, case, self._path, self._remove) as tried,
            recording(self._recorder, self._trace, wanted=self._cuts_power(case, fault)),
        ):
            seen, tried.wrong = self._run(case, fault)
            if self._cuts_power(case, fault):
                self._recorder.stop()
                tried.wrong += self._cut_power(case, self._events(), seen)
        struck = bool(self._slots[0].struck)
        tried.counts.states += struck
        self._context.tell()
        return struck

    def _fared(self, own: Part, live: Callable[[], Fared]) -> Fared:
        """How a process of its own fares."""
        self._slots[0].struck = 0

        def work() -> None:
            fared = live()
            own.say(json.dumps([fared.errors, fared.wrong, fared.opened, fared.poisoned]))

        mortal = Mortal(work, own)
        mortal.wait()
        failure = mortal.failure()
        return Fared([], [failure]) if failure else Fared(*json.loads(own.text))

    def _cuts_power(self, case: CaseT, fault: Fault) -> bool:
        """Whether the power is cut after it."""
        return fault.of_syncs

    def _events(self) -> list[Event]:
        """The calls that were made so far; those of processes that have ended are all there."""
        return parse_trace(used_part(self._trace))

    def _cut_power(self, case: CaseT, events: list[Event], before: SeenT) -> list[str]:
        """The power is cut after all that: what was there when it was opened anew, and closed, is on the disk."""
        wrong = self._behind_cut(events, lambda path: self._compare_after_cut(case, path, before))
        return [f"after a power cut: {line}" for line in wrong]

    def _behind_cut(self, events: list[Event], compare: Callable[[Path], list[str]]) -> list[str]:
        """The power is cut behind these calls: what is wrong with what is on the disk then."""
        disk = LossyDisk()
        disk.take(events)
        path = self._path.with_name("after-power-cut")
        try:
            for name, inode in disk.names_in(self._path.stat().st_ino).items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(disk.image(inode, self._chance))
            return compare(path)
        finally:
            self._remove(path)


def replay_sweeps(
    sweeps: Callable[[Context], FaultSweeps[CaseT, Any]], case: type[CaseT], folder: Path, scratch: Path
) -> list[str]:
    """Try a kept case again, more than once, and at the calls beside it: the threads may take turns otherwise.

    What is wrong.
    """
    kept = case(**json.loads((folder / "part.json").read_text())["case"])
    context = Again(scratch, os.environ["BINLOG_RECORDER_MEMORY"])
    faults = sweeps(context)
    for off in itertools.islice(itertools.cycle((0, 0, 1, -1, 2, -2, 3, -3, 4, -4)), _TRIES):
        faults.one(replace(kept, first=max(kept.first + off, 0)))
        if context.wrong:
            break
    return [f"{kept.name}: {line}" for line in context.wrong]
