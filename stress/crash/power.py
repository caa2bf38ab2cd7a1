"""Power: what was not synced is lost, kept or torn by 512-byte sector, at every moment of a recorded run."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stress.crash.context import Context
from stress.crash.disk import Disk, Span, State, Tree
from stress.crash.expectation import Expectation, group_bounds, turns_in
from stress.crash.judge import Judge, Observation, compare
from stress.crash.marks import forget_shared_memory, marks_in
from stress.crash.recording import LOG, Crashed, Recording, build, load_recording, record, record_recoveries
from stress.crash.states import enumerate_states
from stress.crash.workloads import WORKLOADS

_RUNS_AT_ONCE = 6  # recorded in one process, for starting one costs more than a run
_RECOVERIES_AT_ONCE = 24
_STATES_A_TURN = 60
_CRASHED_ONE_IN = 30  # states that are set aside to be recovered
_CRASHED_MAX = 96


class Run:
    """A recording, ready to be judged at every prefix."""

    def __init__(self, recording: Recording) -> None:
        events = recording.events()
        self.recording = recording
        self.disk = Disk(dict(recording.initial), events)
        self._marks = [*((0, mark) for mark in recording.given), *marks_in(events)]
        marks = [mark for _, mark in self._marks]
        self.judge = Judge(recording.records(events), group_bounds(marks), recording.seed, turns_in(marks))

    def states(self) -> Iterator[tuple[int, Span, State, Expectation, Expectation]]:
        """Each state with its number, its span, and what was tried at the span's first tick and told at its last."""
        most, least = Expectation(), Expectation()
        before: Span | None = None
        for number, span, choice in enumerate_states(self.disk, self.recording.seed):
            if span is not before:
                self._grow(most, span.first)
                self._grow(least, span.last)
                before = span
            yield number, span, self.disk.state(span, choice), most, least

    def _grow(self, expectation: Expectation, until: int) -> None:
        """Add the marks up to a tick that were not added yet."""
        for tick, mark in self._marks[expectation.added :]:
            if tick > until:
                return
            expectation.add(mark, self.recording.seed)


@dataclass
class _Open:
    """A recording that is being judged, a slice of its states at a time; what its states were found to be, by key."""

    recording: Recording
    run: Run
    left: Iterator[tuple[int, Span, State, Expectation, Expectation]]
    seen: dict[bytes, Observation] = field(default_factory=dict)


class Power:
    """Records workloads, and judges what a power cut may leave of each: a slice of the one that has had the least."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/power")
        self._turns = 0
        self._crashed: list[Crashed] = []
        self._open: dict[str, _Open] = {}
        self._recorded: dict[str, list[Recording]] = {}

    def turn(self) -> None:
        """Judge some states of the workload that has had the fewest."""
        # Each worker begins with another one, so that many workers with little time come to all of them.
        first = self._context.job.worker % len(WORKLOADS)
        names = [*WORKLOADS][first:] + [*WORKLOADS][:first]
        rows = {name: self._context.tally.row(f"power/{name}") for name in names}
        name = min((name for name in rows if self._has_work(name)), key=lambda name: rows[name].states)
        self._turns += 1
        begun = time.monotonic()
        if name not in self._open:
            self._open[name] = self._next(name)
            rows[name].runs += 1
        if self._judge(name, self._open[name]):
            del self._open[name]
        rows[name].seconds += time.monotonic() - begun

    def _has_work(self, name: str) -> bool:
        return name != "recovery" or bool(self._crashed or name in self._open or self._recorded.get(name))

    def _next(self, name: str) -> _Open:
        self._context.current.set(f"recording {name}")
        if not self._recorded.get(name):
            self._recorded[name] = self._record(name)
        recording = self._recorded[name].pop()
        recording.save(self._inhand(name))
        run = Run(recording)
        return _Open(recording, run, run.states())

    def _inhand(self, name: str) -> Path:
        """Where the one that watches finds the recording in hand, should this worker die of it."""
        folder = self._context.scratch / f"recording-{name}"
        folder.mkdir(exist_ok=True)
        return folder

    def _record(self, name: str) -> list[Recording]:
        folder = self._context.scratch / "recordings"
        folder.mkdir(exist_ok=True)
        if name == "recovery":
            self._chance.shuffle(self._crashed)
            taken, self._crashed = self._crashed[:_RECOVERIES_AT_ONCE], self._crashed[_RECOVERIES_AT_ONCE:]
            return record_recoveries(taken, folder, self._context.preload)
        head = f"{self._context.job.seed}.{self._context.job.worker}.{self._turns}"
        return record(name, [f"{head}.{index}" for index in range(_RUNS_AT_ONCE)], folder, self._context.preload)

    def _judge(self, name: str, judged: _Open) -> bool:
        """Judge a slice of the states; whether that was the last."""
        counts = self._context.tally.row(f"power/{name}")
        recording, seen = judged.recording, judged.seen
        new = 0
        for number, _, state, most, least in judged.left:
            if state.key in seen:
                counts.repeated += 1
            else:
                self._context.current.set(f"state {number} of the recording in recording-{name}")
                seen[state.key] = observe(judged.run.judge, state.tree, self._context.scratch)
                counts.states += 1
                new += 1
                if name != "recovery" and self._chance.random() * _CRASHED_ONE_IN < 1:
                    self._crashed.append(Crashed(recording.seed, state.tree, (*most.tried(), *least.acknowledged())))
                    self._chance.shuffle(self._crashed)
                    del self._crashed[_CRASHED_MAX:]
                self._context.tell()
            wrong = compare(seen[state.key], least.writers, most.writers, least.number_least)
            if wrong:
                self._violation(name, recording, number, state.tree, wrong)
            if self._context.done or new == _STATES_A_TURN:
                return False
        return True

    def _violation(self, name: str, recording: Recording, number: int, tree: Tree, wrong: list[str]) -> None:
        def keep(folder: Path) -> None:
            recording.save(folder)
            (folder / "part.json").write_text(json.dumps({"part": "power", "state": number}))
            build(tree, folder / "state")

        turn = f"{self._context.job.worker}-{self._turns}"
        self._context.violation(f"power/{name}", f"power-{name}-{recording.seed}-{turn}-{number}", wrong, keep)


def observe(judge: Judge, tree: Tree, scratch: Path) -> Observation:
    """Build a state in memory, judge it, and leave nothing of it: neither files nor shared memory."""
    root = scratch / "state"
    build(tree, root)
    try:
        return judge.observe(root / LOG)
    finally:
        _remove(root)
        forget_shared_memory()


def _remove(root: Path) -> None:
    """Empty the root, as shutil.rmtree would in far more time."""
    log = root / LOG
    try:
        for name in os.listdir(log):
            os.unlink(log / name)
        os.rmdir(log)
    except OSError:
        shutil.rmtree(root, ignore_errors=True)


def replay(folder: Path, scratch: Path) -> list[str]:
    """Judge one kept state again; what is wrong with it."""
    wanted = json.loads((folder / "part.json").read_text())["state"]
    run = Run(load_recording(folder))
    for number, span, state, most, least in run.states():
        if number == wanted:
            print(f"state {number}, ticks {span.first} to {span.last}, {len(span.units)} units not certain")
            return compare(observe(run.judge, state.tree, scratch), least.writers, most.writers, least.number_least)
    raise ValueError(f"the recording has no state {wanted}")
