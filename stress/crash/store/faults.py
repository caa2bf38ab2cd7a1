"""Faults: a call of a process that has a store fails, or is short, at every place where it is made.

What must be true: there is an end; nothing but errors of binlog, and no InternalError; no descriptor left; what was
interrupted or short told to nobody; no space told as FullError, the message not there; after a failed write or sync
nothing appended until the store is opened anew (nor, perhaps, where queues or keys could not be told of a message).
Then all is there that was acknowledged; and what was there then, and was closed, is there still after a power cut, on a
disk that lacks what the failed sync was to cover.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from binlog.errors import BinlogError
from stress.crash.aftermath import Again, keep_log
from stress.crash.context import Context
from stress.crash.fault_scenarios import FAULTS, NO_SPACE, Fared, Fault, run
from stress.crash.lost import LossyDisk, names_in
from stress.crash.marks import Recorder
from stress.crash.mortal import Mortal, common_path
from stress.crash.recording import used_part
from stress.crash.store.aftermath import POOL, judge_store, remove_store
from stress.crash.store.inspection import Contents
from stress.crash.store.ledger import StoreLedger, StoreOwn
from stress.crash.store.options import options
from stress.crash.striker import Kind, Slots, arm, disarm
from stress.crash.trace import Event, parse_trace

Step = Callable[[MessageStore, StoreOwn], None]

_LARGE_BYTES = 1900
_TRIES = 120  # of them a threads' turn that did it once may come again
_FAULTED, _BEFORE = range(2)
_ROOM = 200


def _append(store: MessageStore, own: StoreOwn) -> None:
    own.append(store, 0)


def _several(store: MessageStore, own: StoreOwn) -> None:
    own.append(store, 0, 0, 0)


def _large(store: MessageStore, own: StoreOwn) -> None:
    own.append(store, *(_LARGE_BYTES,) * 3)


SCENARIOS: dict[str, tuple[Step, ...]] = {
    "append": (_append, _several, _append),
    "roll": (_large, _large, _append, _large),
}


@dataclass(frozen=True)
class Case:
    """One fault: `first` is from which call on it fails, or at which alone."""

    scenario: str
    flush: str
    fault: str
    for_ever: bool
    first: int = 0

    @property
    def row(self) -> str:
        """Of the tally."""
        return f"store-faults/{self.flush}"

    @property
    def name(self) -> str:
        """As it is told."""
        return f"{self.scenario} ({self.flush}), {self.fault} {'from' if self.for_ever else 'at'} {self.first}"


class StoreFaults:
    """Sweeps over the faults of a scenario, in an order of chance."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/store-faults")
        self._path = context.scratch / "faulted-store" / "store"
        self._path.parent.mkdir(exist_ok=True)
        self._under = common_path(self._path, POOL)
        self._ledger = StoreLedger(2, _ROOM)
        self._slots = Slots(1)
        self._recorder = Recorder()
        self._sweeps: Iterator[Case] = iter(())

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
        sweeps = [
            Case(scenario, flush.value, fault, for_ever)
            for scenario in SCENARIOS
            for flush in Flush
            for fault in FAULTS
            for for_ever in (False, True)
        ]
        self._chance.shuffle(sweeps)
        # Of failed syncs there is more to see than of all the rest, and they are a few among many.
        sweeps.sort(key=lambda case: not FAULTS[case.fault].of_syncs)
        half = len(sweeps) // 2
        self._sweeps = iter([case for pair in zip(sweeps[:half], sweeps[half:], strict=True) for case in pair])
        return next(self._sweeps)

    def one(self, case: Case) -> bool:
        """One run with one fault; whether it struck, so that the next place is to be tried."""
        context, fault = self._context, FAULTS[case.fault]
        counts = context.tally.row(case.row)
        begun = time.monotonic()
        context.current.set(f"store-faults: {case.name}")
        self._ledger.clear()
        trace = context.scratch / "faulted-store" / "trace"
        if fault.of_syncs:
            self._recorder.start(str(trace))
        wrong: list[str] = []
        try:
            contents, wrong = self._run(case, fault)
            if fault.of_syncs:
                self._recorder.stop()
                wrong += self._cut_power(parse_trace(used_part(trace)), contents)
        except BinlogError as error:
            wrong.append(f"{type(error).__name__}: {error}")
        finally:
            self._recorder.stop()
            trace.unlink(missing_ok=True)
            if wrong:
                keep_log(context, case.row, case.name, asdict(case), wrong, self._path)
            remove_store(self._path)
        struck = bool(self._slots[0].struck)
        counts.states += struck
        counts.seconds += time.monotonic() - begun
        context.tell()
        return struck

    def _run(self, case: Case, fault: Fault) -> tuple[Contents, list[str]]:
        flush = Flush(case.flush)
        with MessageStore(self._path, options(flush)) as store:
            self._ledger.writers[_BEFORE].append(store, 0, 0)
        fared = self._faulted(fault, case)
        contents, wrong = judge_store(self._path, self._ledger, Flush.SYNC)
        return contents, fared.wrong + _compare(fault, fared) + wrong

    def _faulted(self, fault: Fault, case: Case) -> Fared:
        own = self._ledger.writers[_FAULTED]
        self._slots[0].struck = 0

        def live() -> None:
            arm(fault.strike(case.first, for_ever=case.for_ever), self._under, self._slots[0])
            fared = run(
                lambda: MessageStore(self._path, options(Flush(case.flush))),
                [lambda store, step=step: step(store, own) for step in SCENARIOS[case.scenario]],  # type: ignore[misc]
                lambda store: own.append(store, 0),
                disarm,
                background_tells=True,
            )
            own.say(json.dumps([fared.errors, fared.wrong, fared.opened, fared.poisoned]))

        mortal = Mortal(live, own)
        mortal.wait()
        failure = mortal.failure()
        return Fared([], [failure]) if failure else Fared(*json.loads(own.text))

    def _cut_power(self, events: list[Event], before: Contents) -> list[str]:
        """The power is cut after all that: what the store had when it was opened anew, and closed, is on the disk."""
        disk = LossyDisk()
        disk.take(events)
        path = self._path.with_name("after-power-cut")
        try:
            for name, inode in names_in(self._path).items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(disk.image(inode, self._chance))
            after, wrong = judge_store(path, self._ledger, Flush.SYNC, again=True)
        finally:
            remove_store(path)
        wrong += [
            f"{which}, which was at {place} when the store was closed, is not there"
            for which, place in before.messages.items()
            if after.messages.get(which) != place
        ]
        return [f"after a power cut: {line}" for line in wrong]


def _compare(fault: Fault, fared: Fared) -> list[str]:
    """Whether the errors are those that the fault may have."""
    told = sorted(set(fared.errors))
    if (fault.error in (0, errno.EINTR) or fault.kinds == (Kind.MEMORY,)) and told:
        return [f"nobody was to be told, and there was {', '.join(told)}"]
    if fault.error in NO_SPACE and not fault.of_syncs and set(told) - {"FullError"}:
        return [f"there is no space, and there was {', '.join(told)}"]
    return []


def replay(folder: Path, scratch: Path) -> list[str]:
    """Try a kept case again, more than once, and at the calls beside it: the threads may take turns otherwise.

    What is wrong.
    """
    case = Case(**json.loads((folder / "part.json").read_text())["case"])
    context = Again(scratch, os.environ["BINLOG_RECORDER_MEMORY"])
    faults = StoreFaults(context)
    for off in itertools.islice(itertools.cycle((0, 0, 1, -1, 2, -2, 3, -3, 4, -4)), _TRIES):
        faults.one(replace(case, first=max(case.first + off, 0)))
        if context.wrong:
            break
    return [f"{case.name}: {line}" for line in context.wrong]
