"""Faults: a system call fails, or is short, once or from then on, at every place where a process makes it.

What must be true, whatever failed: there is an end; nothing but errors of binlog is raised, and no InternalError; no
descriptor is left; what was interrupted or short is made again and told to nobody; where there is no space, the append
fails with FullError and is not in the log, and appends go on once there is.  Drafts may fail with UnknownOutcomeError,
and come into the log then.  After a failed write or sync no append is accepted any more, by any process that has the
log open, until somebody opens it anew: then it goes on in the next file.  What was acknowledged is there, and after a
failed sync that is so on a disk that lacks the bytes that it was to cover.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from binlog import Writer
from binlog.errors import BinlogError, PoisonedError
from binlog.format.log_header import LOG_HEADER, Flag
from binlog.storage.boot import boot_id
from stress.crash.aftermath import Again, judge_log, keep_log
from stress.crash.context import Context
from stress.crash.fault_scenarios import FAULTS, NO_SPACE, SCENARIOS, Fared, Fault, run
from stress.crash.judge import LOCK_SECONDS, PREPARE_BYTES
from stress.crash.kill_scenarios import SCENARIOS as KILLED
from stress.crash.ledger import Fate, Ledger
from stress.crash.lost import LossyDisk, names_in
from stress.crash.marks import Recorder
from stress.crash.mortal import Mortal, common_path, remove_log
from stress.crash.recording import used_part
from stress.crash.striker import Action, Kind, Slots, Strike, arm, disarm, other_boot
from stress.crash.trace import Event, parse_trace

RECOVERY = "recovery"
"""The scenario in which the faults meet whoever opens what a killed process left."""

_CALLS_ABOUT = 70
_TRIES = 10
_WRITERS, _ROOM = 6, 200
_FAULTED, _BEFORE, _KILLED, _BESIDE, _AFTER, _OTHER_BOOT = range(_WRITERS)


@dataclass(frozen=True)
class Case:
    """One fault.

    scenario: what is done, and `first`, from which call on it fails, or at which alone.
    killed, killed_at: for the scenario RECOVERY, which process was killed beforehand, and at which call.
    """

    scenario: str
    fault: str
    for_ever: bool
    first: int = 0
    killed: str = ""
    killed_at: int = -1

    @property
    def row(self) -> str:
        """Of the tally."""
        return f"faults/{self.scenario}"

    @property
    def name(self) -> str:
        """As it is told."""
        name = f"{self.scenario}, {self.fault} {'from' if self.for_ever else 'at'} {self.first}"
        return f"{name}, after {self.killed} killed at {self.killed_at}" if self.killed else name


class Faults:
    """Sweeps over the faults of a scenario, in an order of chance."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/faults")
        self._log = context.scratch / "faulted" / "log"
        self._log.parent.mkdir(exist_ok=True)
        self._under = common_path(self._log, context.job.memory)
        self._ledger = Ledger(_WRITERS, _ROOM)
        self._slots = Slots(1)
        self._recorder = Recorder()
        self._sweeps: Iterator[Case] = iter(())
        self._boot = context.scratch / "another-boot"
        self._boot.write_text("6f1d2b1e-0f5b-4d0e-9a55-3b2f64c3a7d1\n", encoding="ascii")

    def turn(self) -> None:
        """One fault of one scenario, at each place."""
        case = self._next_sweep()
        while self.one(case) and not self._context.done:
            case = replace(case, first=case.first + 1)
        self._context.tell()

    def _next_sweep(self) -> Case:
        case = next(self._sweeps, None)
        if case is not None:
            return case
        sweeps = []
        for fault in FAULTS:
            for for_ever in (False, True):
                sweeps += [Case(scenario, fault, for_ever) for scenario in SCENARIOS]
                killed, killed_at = self._chance.choice([*KILLED]), self._chance.randrange(_CALLS_ABOUT)
                sweeps.append(Case(RECOVERY, fault, for_ever, killed=killed, killed_at=killed_at))
        self._chance.shuffle(sweeps)
        self._sweeps = iter(_in_turn(sweeps))
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """One run with one fault; whether it struck, so that the next place is to be tried."""
        context, fault = self._context, FAULTS[case.fault]
        counts = context.tally.row(case.row)
        begun = time.monotonic()
        context.current.set(f"faults: {case.name}")
        self._ledger.clear()
        trace = context.scratch / "faulted" / "trace"
        if fault.of_syncs:
            self._recorder.start(str(trace))
        wrong: list[str] = []
        try:
            wrong = self._run(case, fault)
            if fault.of_syncs:
                self._recorder.stop()
                wrong += self._cut_power(parse_trace(used_part(trace)))
        except BinlogError as error:
            wrong.append(f"{type(error).__name__}: {error}")
        finally:
            self._recorder.stop()
            trace.unlink(missing_ok=True)
            if wrong:
                keep_log(context, case.row, case.name, asdict(case), wrong, self._log)
            remove_log(self._log, context.job.memory)
        struck = bool(self._slots[0].struck)
        counts.states += struck
        counts.seconds += time.monotonic() - begun
        context.tell()
        return struck

    def _run(self, case: Case, fault: Fault) -> list[str]:
        own = self._ledger.writers
        with Writer(self._log, prepare_bytes=PREPARE_BYTES) as writer:
            own[_BEFORE].append_many(writer, 2)
        beside: Writer | None = None
        if case.killed:
            # Nobody is beside: who opens what a killed one left recovers it, and leaves nothing to do.
            self._kill(KILLED[case.killed], case.killed_at)
        else:
            beside = Writer(self._log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS)
        strike = fault.strike(case.first, for_ever=case.for_ever)
        fared = self._faulted(strike, SCENARIOS.get(case.scenario, SCENARIOS["append"]))
        wrong = fared.wrong + _compare(fault, fared, own[_FAULTED].decided)
        poisoned = _poisoned_number(self._log)
        if beside is not None:
            wrong += self._beside(beside, fared)
        least = Fate.DURABLE if fared.poisoned or "PoisonedError" in fared.errors else Fate.KEPT
        found = judge_log(self._log, self._ledger, own[_AFTER], None, least=least)
        wrong += [line for line in found if not (poisoned and line.startswith("check before") and "[poison]" in line)]
        after = [ref for _, ref, fate, _ in own[_AFTER].entries() if fate is Fate.DURABLE and ref is not None]
        if poisoned and after and after[0].number <= poisoned:
            wrong.append(f"file {poisoned} was poisoned, and the log goes on at {after[0]}")
        return wrong

    def _faulted(self, strike: Strike, steps: tuple[Callable[..., None], ...]) -> Fared:
        own = self._ledger.writers[_FAULTED]
        self._slots[0].struck = 0

        def live() -> None:
            # EIO is what a disk says: shared memory, whose header is written too, has none under it.
            arm(strike, str(self._log) if strike.error == errno.EIO else self._under, self._slots[0])
            fared = run(
                lambda: Writer(self._log, prepare_bytes=PREPARE_BYTES),
                [lambda writer, step=step: step(writer, own, self._log) for step in steps],  # type: ignore[misc]
                own.append,
                disarm,
            )
            own.say(json.dumps(asdict(fared)))

        mortal = Mortal(live, own)
        mortal.wait()
        failure = mortal.failure()
        return Fared([], [failure]) if failure else Fared(**json.loads(own.text))

    def _beside(self, beside: Writer, fared: Fared) -> list[str]:
        """Whoever has the log open refuses as well after a failed write or sync, and appends after all else.

        Not so where the failure was met on finding the open file: see `Fared`.
        """
        own = self._ledger.writers[_BESIDE]
        wrong = []
        for attempt in range(2):
            try:
                own.append(beside)
                if fared.poisoned and not fared.alone:
                    wrong.append(f"another process appended after a failed write or sync (attempt {attempt})")
            except PoisonedError as error:
                if not fared.poisoned:
                    wrong.append(f"another process refuses, and the one with the fault does not: {error}")
            except BinlogError as error:
                wrong.append(f"another process, after the fault: {type(error).__name__}: {error}")
        with contextlib.suppress(PoisonedError):
            beside.close()
        return wrong

    def _kill(self, scenario: Callable[..., None], at: int) -> None:
        own = self._ledger.writers[_KILLED]

        def live() -> None:
            arm(Strike(Action.KILL_BEFORE, at), self._under)
            scenario(self._log, own)

        Mortal(live, own).wait()

    def _cut_power(self, events: list[Event]) -> list[str]:
        """The power is cut after all that: judge what is on the disk, in another boot."""
        disk = LossyDisk()
        disk.take(events)
        names = names_in(self._log)
        images = {name: disk.image(inode, self._chance) for name, inode in names.items()}
        log = self._log.with_name("after-power-cut")
        own = self._ledger.writers[_OTHER_BOOT]

        def live() -> None:
            other_boot(str(self._boot))
            boot_id.cache_clear()
            log.mkdir()
            for name, data in images.items():
                (log / name).parent.mkdir(exist_ok=True)
                (log / name).write_bytes(data)
            wrong = judge_log(log, self._ledger, self._ledger.writers[_OTHER_BOOT], None, least=Fate.DURABLE)
            own.say(json.dumps(wrong[:5]))

        mortal = Mortal(live, own)
        mortal.wait()
        failure = mortal.failure()
        found = [failure] if failure else json.loads(own.text)
        remove_log(log, self._context.job.memory)
        return [f"after a power cut: {line}" for line in found]


def _in_turn(sweeps: list[Case]) -> list[Case]:
    """Failed syncs, which may cost records that were acknowledged, in turn with all else; those that fail once first.

    In the time that a run has for faults by default there are some dozens of sweeps, six out of seven of others.
    """
    syncs = [case for case in sweeps if FAULTS[case.fault].of_syncs]
    syncs.sort(key=lambda case: case.for_ever)
    others = [case for case in sweeps if not FAULTS[case.fault].of_syncs]
    pairs = [case for pair in zip(syncs, others, strict=False) for case in pair]
    return pairs + syncs[len(others) :] + others[len(syncs) :]


def _compare(fault: Fault, fared: Fared, decided: int) -> list[str]:
    """Whether the errors are those that the fault may have.

    decided: how many calls raised UnknownOutcomeError for drafts that come into the log all the same, which the ledger
    sees to.
    """
    told = sorted(set(fared.errors))
    if fault.harmless and told:
        return [f"nobody was to be told, and there was {', '.join(told)}"]
    if fault.error in NO_SPACE and not fault.of_syncs:
        allowed = {"FullError"}
        if Kind.WRITE in fault.kinds or fared.errors.count("UnknownOutcomeError") == decided:
            allowed.add("UnknownOutcomeError")
        if set(told) - allowed:
            return [f"there is no space, and there was {', '.join(told)}"]
    may_poison = fault.of_syncs or {Kind.WRITE, Kind.ALLOCATE} & set(fault.kinds)
    if fault.error == errno.EIO and not may_poison and "PoisonedError" in told:
        return ["no write or sync failed, and there was PoisonedError"]
    return []


def _poisoned_number(log: Path) -> int:
    """The file that says of itself that a write or sync failed, 0 for none."""
    flags = LOG_HEADER.offset("flags")
    for path in sorted(log.glob("*.dat")):
        if int.from_bytes(path.read_bytes()[flags : flags + 2], "big") & Flag.POISON:
            return int(path.stem)
    return 0


def replay(folder: Path, scratch: Path) -> list[str]:
    """Try a kept case again, more than once, for the processes may take turns otherwise; what is wrong."""
    case = Case(**json.loads((folder / "part.json").read_text())["case"])
    context = Again(scratch, os.environ["BINLOG_RECORDER_MEMORY"])
    faults = Faults(context)
    for _ in range(_TRIES):
        faults.one(case)
        if context.wrong:
            break
    return context.wrong
