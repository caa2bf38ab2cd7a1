"""Faults: a system call fails, or is short, once or from then on, at every place where a process makes it.

What must be true: there is an end; nothing but errors of binlog, and no InternalError; no descriptor left; what was
interrupted or short told to nobody; what was refused, as for lack of space, not done, and appends go on once there is
space; after a failed write or sync all refused, also by other processes that have it open, until it is opened anew.
Then all is there that a call had returned for, as after a death; and what was there when it was opened anew, and
closed, is there still after a power cut, on a disk that lacks what the failed sync was to cover.  Of some systems the
power is also cut before that, at any call: then what was promised until then is there, and nothing is half there.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from errno import EIO
from pathlib import Path
from typing import Any

from binlog.errors import BinlogError, PoisonedError
from binlog.storage.boot import boot_id
from stress.crash.case import Again, kept_case, one_case, spread
from stress.crash.context import Context
from stress.crash.fault import Fared, Fault, Suffering
from stress.crash.lost import LossyDisk
from stress.crash.marks import Both, Ledger, Recorder
from stress.crash.mortal import Mortal, common_path, heard_of
from stress.crash.recording import used_part
from stress.crash.striker import Action, Kind, Slots, Strike, arm, disarm, other_boot
from stress.crash.system import Actor, Crash, System, Who
from stress.crash.trace import Event, parse_trace
from stress.crash.trace import Kind as Traced

_CALLS_ABOUT = 200
_BEFORE, _KILLED, _FAULTED, _BESIDE = range(1, 5)
_BEGUN, _ANEW = (-1,), (-2,)
"""Marks in a trace: from here on there may be faults; from here on all is opened anew."""
_SOON = 10
"""So few calls and marks after a sync that failed, and after that opening, the power is cut: later ones may mend it."""


@dataclass(frozen=True)
class Case:
    """One fault: `first` is from which call on it fails, or at which alone.

    part: of the system.  kept: how it is kept.
    killed_at: if it is not negative, a process was killed before that call beforehand, and what it left is opened.
    """

    part: str
    scenario: str
    kept: str
    fault: str
    for_ever: bool
    seed: int = 0
    first: int = 0
    killed_at: int = -1
    by_kept: bool = field(default=False, repr=False)

    @property
    def row(self) -> str:
        """Of the tally."""
        return f"{self.part}/{'recovery' if self.killed_at >= 0 else self.kept if self.by_kept else self.scenario}"

    @property
    def name(self) -> str:
        """As it is told."""
        kept = f" ({self.kept})" if self.kept else ""
        name = f"{self.scenario}{kept}, {self.fault} {'from' if self.for_ever else 'at'} {self.first}, seed {self.seed}"
        return f"{name}, after one killed at {self.killed_at}" if self.killed_at >= 0 else name


class Faults:
    """Sweeps over the faults of a scenario, in an order of chance."""

    def __init__(self, context: Context, system: System[Any, Any], part: str) -> None:
        self._context = context
        self._system = system
        self._part = part
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/{part}")
        folder = context.scratch / part
        folder.mkdir(exist_ok=True)
        self._path = folder / system.noun
        self._trace = folder / "trace"
        self._memory = system.memory or context.job.memory
        self._ledger = Ledger()
        self._slots = Slots(1)
        self._recorder = Recorder()
        self._sweeps: Iterator[Case] = iter(())
        self._boot = folder / "another-boot"
        self._boot.write_text("6f1d2b1e-0f5b-4d0e-9a55-3b2f64c3a7d1\n", encoding="ascii")

    def turn(self) -> None:
        """One fault of one scenario, at each place."""
        case = self._next_sweep()
        while self.one(case) and not self._context.done:
            case = replace(case, first=case.first + self._chance.randint(1, self._stride()))

    def _stride(self) -> int:
        """How far a sweep goes on at once, at most."""
        if self._system.places_about is None:
            return self._system.fault_stride
        return max(1, 2 * int(self._slots[0].calls) // self._system.places_about)

    def _next_sweep(self) -> Case:
        case = next(self._sweeps, None)
        if case is not None:
            return case
        system, chance = self._system, self._chance
        sweeps = []
        for scenario, kept, name, for_ever in itertools.product(
            system.faulted or system.scenarios, system.kept, system.faults, (False, True)
        ):
            if system.fault_kinds.issuperset(system.faults[name].kinds):
                killed_at = chance.randrange(_CALLS_ABOUT) if chance.random() < system.after_deaths else -1
                seed = chance.randrange(1 << 30)
                case = Case(self._part, scenario, kept, name, for_ever, seed, 0, killed_at, system.by_kept)
                sweeps.append(case)
        chance.shuffle(sweeps)
        # Of failed syncs there is more to see than of all the rest, and they are a few among many.
        syncs = [case for case in sweeps if system.faults[case.fault].of_syncs]
        rest = [case for case in sweeps if not system.faults[case.fault].of_syncs]
        rest = spread(rest, lambda case: system.faults[case.fault].kinds)  # there are many more of some than of others
        pairs = itertools.zip_longest(syncs, rest)
        self._sweeps = iter([case for pair in pairs for case in pair if case is not None])
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """One run with one fault; whether it struck, so that the next place is to be tried."""
        fault = self._system.faults[case.fault]
        # Of a sync that was interrupted, and made again, a trace says that it failed, and the kernel has lost nothing.
        # Nor is a sector left half written because a write was short: what writes over a sector is not short of space.
        is_no_sync = fault.error and {Kind.DATA_SYNC, Kind.SYNC}.isdisjoint(fault.kinds)
        cuts_power = fault.of_syncs or (case.killed_at >= 0 and is_no_sync)
        self._ledger.clear()
        self._slots[0].struck = 0
        try:
            with one_case(self._context, case, self._path, self._remove) as tried:
                if cuts_power:
                    self._recorder.start(str(self._trace))
                seen, tried.wrong = self._run(case, fault)
                if cuts_power:
                    self._recorder.stop()
                    tried.wrong += self._cut_power(seen)
                tried.counts.states += bool(self._slots[0].struck)
        finally:
            self._recorder.stop()
            self._trace.unlink(missing_ok=True)
        return bool(self._slots[0].struck)

    def _remove(self) -> None:
        self._system.remove(self._path, self._memory)

    def _run(self, case: Case, fault: Fault) -> tuple[Any, list[str]]:
        """One run with one fault: what was there when it was opened anew, and closed; and what is wrong."""
        system = self._system
        first = system.scenarios[system.first]
        system.live(self._path, first, self._who(case, _BEFORE), case.kept)
        beside: Actor | None = None
        if case.killed_at >= 0:
            # Then nobody is beside: who opens what a killed one left recovers it, and leaves nothing to do.
            self._kill(case)
        elif system.shared:
            beside = system.open(self._path, self._who(case, _BESIDE), case.kept)
        fared = self._faulted(case, fault)
        wrong = [*fared.wrong]
        if beside is not None:
            wrong += _beside(beside, fared)
        marks = self._ledger.marks()
        expected = system.expect(marks)
        wrong += system.wrong_errors(fault, fared, expected)
        if not (system.shared and (fared.poisoned or "PoisonedError" in fared.errors)):
            expected.died()  # else what was in the file and not synced may have been set aside
        self._recorder.mark(_ANEW)
        seen = system.observe(self._path, marks, stays=True)
        return seen, wrong + seen.problems + system.compare(seen, expected, expected, Crash.KILL)

    def _who(self, case: Case, life: int) -> Who:
        return Who(Both(self._ledger), life, random.Random(f"{case.seed}/{life}"), self._ledger.marks())

    def _kill(self, case: Case) -> None:
        system = self._system

        def live() -> None:
            arm(Strike(Action.KILL_BEFORE, case.killed_at), common_path(self._path, self._memory))
            system.live(self._path, system.scenarios[case.scenario], self._who(case, _KILLED), case.kept)

        Mortal(live).wait()

    def _faulted(self, case: Case, fault: Fault) -> Fared:
        """How a process of its own fares."""
        system = self._system

        def live() -> dict[str, Any]:
            who = self._who(case, _FAULTED)
            self._recorder.mark(_BEGUN)
            # EIO is what a disk says: shared memory, whose header is written too, has none under it.
            under = str(self._path) if fault.error == EIO else common_path(self._path, self._memory)
            arm(fault.strike(case.first, for_ever=case.for_ever), under, self._slots[0])
            suffering = Suffering(
                background_tells=system.background_tells(fault),
                refuses_all=system.refuses_all,
                fails_alone=system.fails_alone,
            )
            fared = suffering.run(
                lambda: system.open(self._path, who, case.kept),
                system.scenarios[case.scenario].chosen(who.chance),
                lambda actor: actor.go_on(),
                disarm,
            )
            fared.wrong += who.wrong
            return asdict(fared)

        told, failures = heard_of(Mortal(live))
        return Fared(**told) if told else Fared(wrong=failures or ["the process with the fault was killed"])

    def _cut_power(self, before: Any) -> list[str]:
        """The power is cut after all that, and at moments before."""
        system = self._system
        events = parse_trace(used_part(self._trace))
        found = self._after_cut(events, lambda seen: system.lasted(before, seen))
        wrong = [f"after a power cut: {line}" for line in found]
        return wrong + self._cut_between(events) if system.cuts_between else wrong

    def _cut_between(self, events: list[Event]) -> list[str]:
        """The power is cut at any call since there may be faults, and soon after a failed sync and the next opening."""
        system, chance = self._system, self._chance
        wrong = []
        begun, anew = (next(at for at, each in enumerate(events) if each.mark[:1] == mark) for mark in (_BEGUN, _ANEW))
        failed = next((at for at, each in enumerate(events) if each.kind is Traced.SYNC_FAILED), anew)
        soon = [min(at + chance.randint(1, _SOON), len(events)) for at in sorted({failed, anew})]
        cuts = [chance.randint(begun + 1, len(events)), *soon]
        for cut in cuts:
            marks = [each.mark for each in events[:cut] if any(each.mark) and each.mark[0] >= 0]
            expected = system.expect(marks)

            def compare(seen: Any) -> list[str]:
                return system.compare(seen, expected, expected, Crash.POWER)  # noqa: B023

            wrong += [f"after a power cut in between: {line}" for line in self._after_cut(events[:cut], compare)]
        return wrong

    def _after_cut(self, events: list[Event], compare: Callable[[Any], list[str]]) -> list[str]:
        """The power is cut after these calls: what is wrong, in another boot, with what is on the disk then."""
        system = self._system
        disk = LossyDisk()
        disk.take(events)
        path = self._path.with_name("after-power-cut")
        images = {
            name: disk.image(inode, self._chance) for name, inode in disk.names_in(self._path.stat().st_ino).items()
        }
        marks = [each.mark for each in events if any(each.mark) and each.mark[0] >= 0]

        def look() -> list[str]:
            other_boot(str(self._boot))
            boot_id.cache_clear()
            seen = system.observe(path, marks, again=True)
            return [*seen.problems, *compare(seen)][:20]

        try:
            for name, image in images.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(image)
            wrong, failures = heard_of(Mortal(look))
            return failures or wrong
        finally:
            system.remove(path, self._memory)


def _beside(beside: Actor, fared: Fared) -> list[str]:
    """Whoever has it open refuses as well after a failed write or sync, and appends after all else."""
    wrong = []
    for attempt in range(2):
        try:
            beside.go_on()
            if fared.poisoned and not fared.alone:
                wrong.append(f"another process appended after a failed write or sync (attempt {attempt})")
        except PoisonedError as error:
            if not fared.poisoned:
                wrong.append(f"another process refuses, and the one with the fault does not: {error}")
        except BinlogError as error:
            wrong.append(f"another process, after the fault: {type(error).__name__}: {error}")
    with suppress(PoisonedError):
        beside.close()
    return wrong


def replay(system: System[Any, Any], part: str, folder: Path, scratch: Path) -> list[str]:
    """Try a kept case again, more than once, and at the calls beside it: threads may take turns otherwise.

    What is wrong.
    """
    kept = Case(**kept_case(folder))
    context = Again(scratch)
    faults = Faults(context, system, part)
    for off in itertools.islice(itertools.cycle((0, 0, 1, -1, 2, -2, 3, -3, 4, -4)), system.tries):
        faults.one(replace(kept, first=max(kept.first + off, 0)))
        if context.wrong:
            break
    return context.wrong
