"""Power: what was not synced is lost, kept or torn by 512-byte sector, at every moment of a recorded run."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from stress.crash.context import Context
from stress.crash.disk import Disk, Span, State, Tree
from stress.crash.expectation import Expectation, group_bounds
from stress.crash.judge import Judge, Observation, compare
from stress.crash.marks import forget_shared_memory, marks_in
from stress.crash.recording import LOG, Crashed, Recording, build, load_recording, record, record_recoveries
from stress.crash.states import enumerate_states
from stress.crash.workloads import WORKLOADS

_RUNS_A_TURN = 6
_RECOVERIES_A_TURN = 24
_RECOVERIES_FIRST = 4
_CRASHED_A_RUN = 8  # states of a run that are set aside to be recovered
_CRASHED_MAX = 96


class Run:
    """A recording, ready to be judged at every prefix."""

    def __init__(self, recording: Recording) -> None:
        events = recording.events()
        self.recording = recording
        self.disk = Disk(dict(recording.initial), events)
        self._marks = [*((0, mark) for mark in recording.given), *marks_in(events)]
        self.judge = Judge(recording.records(events), group_bounds([mark for _, mark in self._marks]))

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


# No workload gets farther ahead of the others in one turn, so that short runs give each its share.
_STATES_AHEAD = 300


class Power:
    """Records workloads in turn, and judges what a power cut may leave of each."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/power")
        self._turns = 0
        self._crashed: list[Crashed] = []

    def turn(self) -> None:
        """Record some runs of the workload that has had the fewest states, and judge them."""
        # Each worker begins with another one, so that many workers with little time come to all of them.
        first = self._context.job.worker % len(WORKLOADS)
        names = [*WORKLOADS][first:] + [*WORKLOADS][:first]
        rows = {name: self._context.tally.row(f"power/{name}") for name in names}
        name = min((name for name in rows if name != "recovery" or self._crashed), key=lambda name: rows[name].states)
        self._turns += 1
        begun = time.monotonic()
        self._context.current.set(f"recording {name}")
        for recording in self._record(name, few=rows[name].runs == 0):
            rows[name].runs += 1
            self._judge(name, recording)
            ahead = rows[name].states - min(row.states for row in rows.values())
            if self._context.done or ahead > _STATES_AHEAD:
                break
        rows[name].seconds += time.monotonic() - begun

    def _record(self, name: str, *, few: bool) -> list[Recording]:
        """few: the first time, so that a short run comes to every workload."""
        folder = self._context.scratch / "recordings"
        folder.mkdir(exist_ok=True)
        if name == "recovery":
            self._chance.shuffle(self._crashed)
            count = _RECOVERIES_FIRST if few else _RECOVERIES_A_TURN
            taken, self._crashed = self._crashed[:count], self._crashed[count:]
            return record_recoveries(taken, folder, self._context.preload)
        head = f"{self._context.job.seed}.{self._context.job.worker}.{self._turns}"
        seeds = [f"{head}.{index}" for index in range(1 if few else _RUNS_A_TURN)]
        return record(name, seeds, folder, self._context.preload)

    def _judge(self, name: str, recording: Recording) -> None:
        run = Run(recording)
        inhand = self._context.scratch / "recording"
        inhand.mkdir(exist_ok=True)
        recording.save(inhand)
        counts = self._context.tally.row(f"power/{name}")
        seen: dict[bytes, Observation] = {}
        fresh: list[Crashed] = []
        for number, _, state, most, least in run.states():
            if state.key in seen:
                counts.repeated += 1
            else:
                self._context.current.set(f"state {number} of the recording beside this, of {name}")
                seen[state.key] = observe(run.judge, state.tree, self._context.scratch)
                counts.states += 1
                if name != "recovery" and self._chance.random() * len(seen) < _CRASHED_A_RUN:
                    fresh.append(Crashed(recording.seed, state.tree, (*most.tried(), *least.acknowledged())))
                self._context.tell()
            wrong = compare(seen[state.key], least.writers, most.writers, least.number_least)
            if wrong:
                self._violation(name, recording, number, state.tree, wrong)
            if self._context.done:
                break
        self._chance.shuffle(fresh)
        self._crashed = (fresh[:_CRASHED_A_RUN] + self._crashed)[:_CRASHED_MAX]

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
