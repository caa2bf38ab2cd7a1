"""Faults: a system call fails or returns short, once or from then on, at every call of a process.

These hold: every call returns.  Only binlog's errors are raised, and never InternalError.  No descriptor leaks.
Interrupted and short calls are retried without an error.  A refused call, as for lack of space, has changed nothing,
and appends succeed again after space is available.  After a failed write or sync everything is refused, also by other
processes that have it open, until it is opened again. Then every call that returned has taken effect, as after a death.
The state that was read and closed after that opening is still there after a power cut, on a disk that lacks the data of
the failed sync.  For some systems the power is also cut earlier, at any call: then everything promised until then is
there, and nothing is half done.
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
from binlog.storage.boot import whole_boot_id
from stress.crash.disk_model.lossy_disk import LossyDisk
from stress.crash.failure_modes.case import ReplayContext, load_case, round_robin, run_case
from stress.crash.failure_modes.fault import Fault, FaultedProcess, FaultOutcome
from stress.crash.marks import Both, Ledger, Recorder
from stress.crash.preloaded.injector import Action, Injection, Kind, Slots, arm, disarm, other_boot
from stress.crash.preloaded.trace import Event, parse_trace
from stress.crash.preloaded.trace import Kind as Traced
from stress.crash.recording import used_part
from stress.crash.system import Actor, Crash, ProcessContext, System
from stress.crash.workers.context import Context
from stress.crash.workers.victim_process import VictimProcess, common_path, result_of

_CALLS_ABOUT = 200
_BEFORE, _KILLED, _FAULTED, _OTHER = range(1, 5)
_BEGUN, _RETRIED = (-1,), (-2,)
"""Marks in a trace: faults may occur after the first; everything is opened again after the second."""
_SOON = 10
"""The power is cut at most this many calls and marks after a failed sync, and after that opening: later calls may
repair it.
"""


@dataclass(frozen=True)
class Case:
    """One fault.  first: the first call that fails, or the only one.

    part: of the system.  variant: of the system.
    killed_at: if not negative, a process was killed before that call first, and this one opens its files.
    """

    part: str
    scenario: str
    variant: str
    fault: str
    permanent: bool
    seed: int = 0
    first: int = 0
    killed_at: int = -1
    rows_by_variant: bool = field(default=False, repr=False)

    @property
    def row(self) -> str:
        """The row in the tally."""
        row = self.variant if self.rows_by_variant else self.scenario
        return f"{self.part}/{'recovery' if self.killed_at >= 0 else row}"

    @property
    def name(self) -> str:
        """The name as printed."""
        variant = f" ({self.variant})" if self.variant else ""
        place = f"{'from' if self.permanent else 'at'} {self.first}"
        name = f"{self.scenario}{variant}, {self.fault} {place}, seed {self.seed}"
        return f"{name}, after one killed at {self.killed_at}" if self.killed_at >= 0 else name


class Faults:
    """Sweeps over the faults of each scenario, in random order."""

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

    def run_slice(self) -> None:
        """Inject one fault into one scenario, at each call."""
        case = self._next_sweep()
        while self.one(case) and not self._context.done:
            case = replace(case, first=case.first + self._chance.randint(1, self._stride()))

    def _stride(self) -> int:
        """Return the largest step of a sweep, in calls."""
        if self._system.places_about is None:
            return self._system.fault_stride
        return max(1, 2 * int(self._slots[0].calls) // self._system.places_about)

    def _next_sweep(self) -> Case:
        case = next(self._sweeps, None)
        if case is not None:
            return case
        system, chance = self._system, self._chance
        sweeps = []
        for scenario, variant, name, permanent in itertools.product(
            system.faulted or system.scenarios, system.variants, system.faults, (False, True)
        ):
            if system.fault_kinds.issuperset(system.faults[name].kinds):
                killed_at = chance.randrange(_CALLS_ABOUT) if chance.random() < system.after_deaths else -1
                seed = chance.randrange(1 << 30)
                case = Case(self._part, scenario, variant, name, permanent, seed, 0, killed_at, system.rows_by_variant)
                sweeps.append(case)
        chance.shuffle(sweeps)
        # Failed syncs find more than all other faults, and are few among many.
        syncs = [case for case in sweeps if system.faults[case.fault].of_syncs]
        rest = [case for case in sweeps if not system.faults[case.fault].of_syncs]
        # Some kinds have many more faults than others.
        rest = round_robin(rest, lambda case: system.faults[case.fault].kinds)
        pairs = itertools.zip_longest(syncs, rest)
        self._sweeps = iter([case for pair in pairs for case in pair if case is not None])
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """Run one case; return whether the fault was injected, so that the next call is tried."""
        fault = self._system.faults[case.fault]
        # A trace reports an interrupted sync as failed, though it was retried and the kernel lost nothing.  A short
        # write leaves no sector half written either, because overwriting a sector needs no space.
        is_no_sync = fault.error and {Kind.DATA_SYNC, Kind.SYNC}.isdisjoint(fault.kinds)
        cuts_power = fault.of_syncs or (case.killed_at >= 0 and is_no_sync)
        self._ledger.clear()
        self._slots[0].hits = 0
        try:
            with run_case(self._context, case, self._path, self._remove) as outcome:
                if cuts_power:
                    self._recorder.start(str(self._trace))
                seen, outcome.wrong = self._run(case, fault)
                if cuts_power:
                    self._recorder.stop()
                    outcome.wrong += self._cut_power(seen)
                outcome.counts.states += bool(self._slots[0].hits)
        finally:
            self._recorder.stop()
            self._trace.unlink(missing_ok=True)
        return bool(self._slots[0].hits)

    def _remove(self) -> None:
        self._system.remove(self._path, self._memory)

    def _run(self, case: Case, fault: Fault) -> tuple[Any, list[str]]:
        """Run with one fault; return the state observed after the next opening, and the violations."""
        system = self._system
        first = system.scenarios[system.first]
        system.run_scenario(self._path, first, self._process_context(case, _BEFORE), case.variant)
        other: Actor | None = None
        if case.killed_at >= 0:
            # A process that opens the files of a killed one recovers them; a second process would do that first.
            self._kill(case)
        elif system.shared:
            other = system.open(self._path, self._process_context(case, _OTHER), case.variant)
        outcome = self._faulted(case, fault)
        wrong = [*outcome.wrong]
        if other is not None:
            wrong += _check_other_process(other, outcome)
        marks = self._ledger.marks()
        expected = system.expect(marks)
        wrong += system.wrong_errors(fault, outcome, expected)
        if not (system.shared and (outcome.poisoned or "PoisonedError" in outcome.errors)):
            expected.died()  # otherwise recovery may have closed the file before bytes that were not synced
        self._recorder.mark(_RETRIED)
        seen = system.observe(self._path, marks, stays=True)
        return seen, wrong + seen.problems + system.compare(seen, expected, expected, Crash.KILL)

    def _process_context(self, case: Case, process_number: int) -> ProcessContext:
        return ProcessContext(
            Both(self._ledger), process_number, random.Random(f"{case.seed}/{process_number}"), self._ledger.marks()
        )

    def _kill(self, case: Case) -> None:
        system = self._system

        def run() -> None:
            arm(Injection(Action.KILL_BEFORE, case.killed_at), common_path(self._path, self._memory))
            system.run_scenario(
                self._path, system.scenarios[case.scenario], self._process_context(case, _KILLED), case.variant
            )

        VictimProcess(run).wait()

    def _faulted(self, case: Case, fault: Fault) -> FaultOutcome:
        """Run a process with the fault and return its outcome."""
        system = self._system

        def run() -> dict[str, Any]:
            process = self._process_context(case, _FAULTED)
            self._recorder.mark(_BEGUN)
            # EIO is an error of a disk; shared memory has no disk, though its header is written too.
            under = str(self._path) if fault.error == EIO else common_path(self._path, self._memory)
            arm(fault.injection(case.first, permanent=case.permanent), under, self._slots[0])
            faulted_process = FaultedProcess(
                background_reports=system.background_reports(fault),
                refuses_all=system.refuses_all,
                fails_only_here=system.fails_only_here,
            )
            outcome = faulted_process.run(
                lambda: system.open(self._path, process, case.variant),
                system.scenarios[case.scenario].chosen(process.chance),
                lambda actor: actor.append_one(),
                disarm,
            )
            outcome.wrong += process.wrong
            return asdict(outcome)

        reported, failures = result_of(VictimProcess(run))
        return (
            FaultOutcome(**reported)
            if reported
            else FaultOutcome(wrong=failures or ["the process with the fault was killed"])
        )

    def _cut_power(self, before: Any) -> list[str]:
        """Cut the power at the end, and at earlier moments."""
        system = self._system
        events = parse_trace(used_part(self._trace))
        found = self._after_cut(events, lambda seen: system.check_after_power_cut(before, seen))
        wrong = [f"after a power cut: {line}" for line in found]
        return wrong + self._cut_between(events) if system.cuts_between else wrong

    def _cut_between(self, events: list[Event]) -> list[str]:
        """Cut the power at a random call after the fault may occur, and soon after a failed sync and the next
        opening."""
        system, chance = self._system, self._chance
        wrong = []
        begun, retried = (
            next(at for at, each in enumerate(events) if each.mark[:1] == mark) for mark in (_BEGUN, _RETRIED)
        )
        failed = next((at for at, each in enumerate(events) if each.kind is Traced.SYNC_FAILED), retried)
        soon = [min(at + chance.randint(1, _SOON), len(events)) for at in sorted({failed, retried})]
        cuts = [chance.randint(begun + 1, len(events)), *soon]
        for cut in cuts:
            marks = [each.mark for each in events[:cut] if any(each.mark) and each.mark[0] >= 0]
            expected = system.expect(marks)

            def compare(seen: Any) -> list[str]:
                return system.compare(seen, expected, expected, Crash.POWER)  # noqa: B023

            wrong += [f"after an earlier power cut: {line}" for line in self._after_cut(events[:cut], compare)]
        return wrong

    def _after_cut(self, events: list[Event], compare: Callable[[Any], list[str]]) -> list[str]:
        """Cut the power after these calls; return the violations in another boot, with only the data on the disk."""
        system = self._system
        disk = LossyDisk()
        disk.take(events)
        path = self._path.with_name("after-power-cut")
        images = {
            name: disk.image(inode, self._chance) for name, inode in disk.names_in(self._path.stat().st_ino).items()
        }
        marks = [each.mark for each in events if any(each.mark) and each.mark[0] >= 0]

        def observe() -> list[str]:
            other_boot(str(self._boot))
            whole_boot_id.cache_clear()
            seen = system.observe(path, marks, again=True)
            return [*seen.problems, *compare(seen)][:20]

        try:
            for name, image in images.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(image)
            wrong, failures = result_of(VictimProcess(observe))
            return failures or wrong
        finally:
            system.remove(path, self._memory)


def _check_other_process(other: Actor, outcome: FaultOutcome) -> list[str]:
    """Check that another process refuses too after a failed write or sync, and appends after all other faults."""
    wrong = []
    for attempt in range(2):
        try:
            other.append_one()
            if outcome.poisoned and not outcome.alone:
                wrong.append(f"another process appended after a failed write or sync (attempt {attempt})")
        except PoisonedError as error:
            if not outcome.poisoned:
                wrong.append(f"another process refuses, but the one with the fault does not: {error}")
        except BinlogError as error:
            wrong.append(f"another process, after the fault: {type(error).__name__}: {error}")
    with suppress(PoisonedError):
        other.close()
    return wrong


def replay(system: System[Any, Any], part: str, folder: Path, scratch: Path) -> list[str]:
    """Run a saved case again, several times and at the calls next to it, because threads may interleave differently.

    Return the violations.
    """
    case = Case(**load_case(folder))
    context = ReplayContext(scratch)
    faults = Faults(context, system, part)
    for off in itertools.islice(itertools.cycle((0, 0, 1, -1, 2, -2, 3, -3, 4, -4)), system.tries):
        faults.one(replace(case, first=max(case.first + off, 0)))
        if context.wrong:
            break
    return context.wrong
