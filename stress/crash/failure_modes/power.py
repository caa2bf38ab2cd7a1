"""Power: unsynced data is lost, kept or torn by 512-byte sector, at every moment of a recorded run."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stress.crash.disk_model.disk import Disk, Span, State, Tree
from stress.crash.disk_model.states import enumerate_states
from stress.crash.marks import Values, forget_shared_memory, marks_in
from stress.crash.recording import LOG, Crashed, Recording, build, load_recording, record, record_recoveries
from stress.crash.system import Crash, System
from stress.crash.workers.context import Context

_RUNS_AT_ONCE = 6  # recorded in one process, because starting a process costs more than a run
_RECOVERIES_AT_ONCE = 24
_STATES_PER_SLICE = 30
_CRASHED_ONE_IN = 30  # states that are kept to be recovered
_CRASHED_MAX = 96


class Run:
    """A recording, ready to be checked at every prefix."""

    def __init__(self, recording: Recording, system: System[Any, Any]) -> None:
        # In a workload, a process that dies is killed before a call that changes something, and is then the only one in
        # a call.
        events = [event for event in recording.events() if not event.died]
        self.recording = recording
        self.disk = Disk(dict(recording.initial), events)
        self._system = system
        self._ticked = [*((0, mark) for mark in recording.given), *marks_in(events)]
        self.marks = [mark for _, mark in self._ticked]

    def states(self) -> Iterator[tuple[int, Span, State, Any, Any, int]]:
        """Yield each state with its number and span, the marks tried at the span's first tick, and those promised at
        its last.

        The last item is the number of marks until then.
        """
        most, least = self._system.expectation(), self._system.expectation()
        most_count = least_count = 0
        before: Span | None = None
        for number, span, choice in enumerate_states(self.disk, self.recording.seed, self._system.choices_max):
            if span is not before:
                most_count = self._grow(most, most_count, span.first)
                least_count = self._grow(least, least_count, span.last)
                before = span
            yield number, span, self.disk.state(span, choice), most, least, least_count

    def _grow(self, expected: Any, count: int, until: int) -> int:
        """Add the marks up to a tick, after the first `count`; return the new count."""
        while count < len(self.marks) and self._ticked[count][0] <= until:
            expected.add(self.marks[count])
            count += 1
        return count

    def compare(self, seen: Any, least: Any, most: Any) -> list[str]:
        """Return the violations of an observed state."""
        return [*seen.problems, *self._system.compare(seen, least, most, Crash.POWER)]


@dataclass
class _Open:
    """A recording that is checked a slice of its states at a time.  seen: the observation of each state, by key."""

    recording: Recording
    run: Run
    left: Iterator[tuple[int, Span, State, Any, Any, int]]
    seen: dict[bytes, Any] = field(default_factory=dict)


class Power:
    """Records workloads, and checks the states that a power cut may leave, in slices, the workload with the fewest
    first.
    """

    def __init__(self, context: Context, system: System[Any, Any], part: str) -> None:
        self._context = context
        self._system = system
        self._part = part
        self._chance = random.Random(f"{context.job.seed}/{context.job.worker}/{part}")
        self._slice_count = 0
        self._crashed: list[Crashed] = []
        self._open: dict[str, _Open] = {}
        self._recorded: dict[str, list[Recording]] = {}

    def run_slice(self) -> None:
        """Check some states of the workload that has had the fewest."""
        # Each worker begins with another workload, so that many workers with little time reach all of them.
        workloads = [*self._system.workloads]
        first = self._context.job.worker % len(workloads)
        rows = {name: self._context.tally.row(self._row(name)) for name in workloads[first:] + workloads[:first]}
        name = min((name for name in rows if self._has_work(name)), key=lambda name: rows[name].states)
        self._slice_count += 1
        begun = time.monotonic()
        if name not in self._open:
            self._open[name] = self._next(name)
            rows[name].runs += 1
        if self._check_states(name, self._open[name]):
            del self._open[name]
        rows[name].seconds += time.monotonic() - begun

    def _row(self, name: str) -> str:
        return f"{self._part}/{name}"

    def _has_work(self, name: str) -> bool:
        return name != "recovery" or bool(self._crashed or name in self._open or self._recorded.get(name))

    def _next(self, name: str) -> _Open:
        self._context.current.set(f"recording {name}")
        if not self._recorded.get(name):
            self._recorded[name] = self._record(name)
        recording = self._recorded[name].pop()
        recording.save(self._inhand(name))
        run = Run(recording, self._system)
        return _Open(recording, run, run.states())

    def _inhand(self, name: str) -> Path:
        """Return the folder of the recording being checked, which the command saves if this worker dies."""
        folder = self._context.scratch / f"recording-{self._part}-{name}"
        folder.mkdir(exist_ok=True)
        return folder

    def _record(self, name: str) -> list[Recording]:
        folder = self._context.scratch / "recordings"
        folder.mkdir(exist_ok=True)
        preload = self._context.preload
        if name == "recovery":
            self._chance.shuffle(self._crashed)
            taken, self._crashed = self._crashed[:_RECOVERIES_AT_ONCE], self._crashed[_RECOVERIES_AT_ONCE:]
            return record_recoveries(self._part, taken, folder, preload)
        head = f"{self._context.job.seed}.{self._context.job.worker}.{self._slice_count}"
        seeds = [f"{head}.{index}" for index in range(_RUNS_AT_ONCE)]
        return record(self._part, name, seeds, folder, preload, self._system.prepared.get(name))

    def _check_states(self, name: str, checked: _Open) -> bool:
        """Check a slice of the states; return whether it was the last."""
        counts = self._context.tally.row(self._row(name))
        recording, seen = checked.recording, checked.seen
        new = 0
        for number, _, state, most, least, mark_count in checked.left:
            is_new = state.key not in seen
            counts.repeated += not is_new
            if is_new:
                self._context.current.set(f"state {number} of the recording in recording-{self._part}-{name}")
                seen[state.key] = observe(self._system, checked.run.marks, state.tree, self._context.scratch)
                counts.states += 1
                new += 1
                self._context.report_tally()
            wrong = checked.run.compare(seen[state.key], least, most)
            if wrong:
                self._violation(name, recording, number, state.tree, wrong)
            elif is_new and name != "recovery" and self._chance.random() * _CRASHED_ONE_IN < 1:
                given = tuple(checked.run.marks[:mark_count])
                self._crashed.append(Crashed(recording.seed, state.tree, given))
                self._chance.shuffle(self._crashed)
                del self._crashed[_CRASHED_MAX:]
            if self._context.done or new == _STATES_PER_SLICE:
                return False
        return True

    def _violation(self, name: str, recording: Recording, number: int, tree: Tree, wrong: list[str]) -> None:
        def keep(folder: Path) -> None:
            recording.save(folder)
            (folder / "part.json").write_text(json.dumps({"part": self._part, "state": number}))
            build(tree, folder / "state")

        slice_ = f"{self._context.job.worker}-{self._slice_count}"
        label = f"{self._part}-{name}-{recording.seed}-{slice_}-{number}"
        self._context.violation(self._row(name), label, wrong, keep)


def observe(system: System[Any, Any], marks: list[Values], tree: Tree, scratch: Path) -> Any:
    """Build a state in memory, observe it, and remove its files and shared memory."""
    root = scratch / "state"
    build(tree, root)
    try:
        return system.observe(root / LOG, marks)
    finally:
        _remove(root)
        forget_shared_memory()


def _remove(root: Path) -> None:
    """Empty the root, much faster than shutil.rmtree."""
    log = root / LOG
    try:
        for name in os.listdir(log):
            os.unlink(log / name)
        os.rmdir(log)
    except OSError:
        shutil.rmtree(root, ignore_errors=True)


def replay(system: System[Any, Any], part: str, folder: Path, scratch: Path) -> list[str]:
    """Check one saved state again and return the violations."""
    wanted = json.loads((folder / "part.json").read_text())["state"]
    run = Run(load_recording(folder), system)
    for number, span, state, most, least, _ in run.states():
        if number == wanted:
            print(f"state {number}, ticks {span.first} to {span.last}, {len(span.units)} undecided units")
            return run.compare(observe(system, run.marks, state.tree, scratch), least, most)
    raise ValueError(f"the recording has no state {wanted} of {part}")
