"""The system of consumer groups: members, producers, operators and retention, on one log.

The promises are those of `expectation`; how a state is observed, in `observation`.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from binlog import Mode
from stress.crash.failure_modes.fault import NO_SPACE, Fault, FaultOutcome
from stress.crash.marks import Ledger, Recorder, Values
from stress.crash.preloaded.injector import Kind
from stress.crash.system import (
    AFTER_POWER_CUT,
    Crash,
    Death,
    Prepare,
    ProcessContext,
    Scenario,
    Storm,
    System,
    Workload,
)
from stress.crash.systems.group.actor import GROUP, SCENARIOS, SHORT_RETENTION, GroupActor
from stress.crash.systems.group.deaths import one_reaper, one_returner
from stress.crash.systems.group.expectation import Expectation
from stress.crash.systems.group.marks import Mark, MarkKind
from stress.crash.systems.group.observation import Observation, observe
from stress.crash.workers.victim_process import VictimProcess, remove_shared_memory, repeat_in_threads

_PROCESSES = 6
_FIRST = 9  # the number of the process that makes a group before a recorded run
_CALLS_ABOUT = 400
_HISTORY_BYTES = 1 << 17
_MODES = {"sync": Mode.SYNC, "flush": Mode.FLUSH}


def _use_until_killed(path: Path, process: ProcessContext, variant: str) -> None:
    # Enough older files that a process which is stopped for a moment does not lose its place.
    actor = GroupActor(path, process, _MODES[variant], history_bytes=_HISTORY_BYTES)
    match process.number % _PROCESSES:
        case 0 | 1:
            repeat_in_threads(actor.operate)
        case 2:
            repeat_in_threads(actor.produce_and_get, actor.for_thread().consume_some)
        case 3:
            repeat_in_threads(actor.get_and_end, actor.for_thread().get_and_end)
        case 4:
            repeat_in_threads(actor.take_some_batches)
    while True:
        actor.work()


class GroupSystem(System[Expectation, Observation]):
    """See the module."""

    name = "group"
    noun = "log"
    variants = tuple(_MODES)
    mixes_variants = True
    shared = True
    scenarios: ClassVar[Mapping[str, Scenario]] = SCENARIOS
    first = "acks"
    deaths: ClassVar[Mapping[str, Death]] = {"returner": one_returner, "reaper": one_reaper}
    storm = Storm(_use_until_killed, _PROCESSES, kills=20, marks=120)
    stride = 12
    choices_max = 4
    fault_kinds = frozenset({
        Kind.READ, Kind.WRITE, Kind.DATA_SYNC, Kind.SYNC, Kind.ALLOCATE, Kind.TRUNCATE, Kind.OPEN, Kind.LINK,
        Kind.UNLINK, Kind.MAKE_DIRECTORY, Kind.LOCK,
    })  # fmt: skip
    places_about = 20
    # A failure of one of the three logs is none of the others.
    refuses_all = False

    def __init__(self) -> None:
        self.workloads: Mapping[str, Workload] = {
            "acks": self.repeated(SCENARIOS["acks"], 2),
            "loops": self._together("loops", 2),
            "dead": self.repeated(SCENARIOS["dead"], 1),
            "operator": self._together("operator", 2),
            "retention": self.repeated(SHORT_RETENTION, 1, "flush"),
            "killed": self.killed(SCENARIOS["all"], SCENARIOS["all"], _CALLS_ABOUT),
            "recovery": self._recover,
        }
        # Most runs begin with a group that exists, because its creation is the larger part of a run.
        self.prepared: Mapping[str, Prepare] = dict.fromkeys(("loops", "dead", "operator", "retention"), self._prepare)

    def _together(self, name: str, count: int) -> Workload:
        """Return a workload of some processes at once, which do the same."""

        def workload(path: Path, seed: str) -> None:
            runs: list[Callable[[], None]] = [
                partial(self._recorded, path, SCENARIOS[name], seed, process_number)
                for process_number in range(1, count + 1)
            ]
            victims = [VictimProcess(run) for run in runs]
            if failures := [failure for victim in victims for failure in victim.failures()]:
                raise RuntimeError(f"processes of a workload failed: {failures}")

        return workload

    def _prepare(self, path: Path, seed: str) -> list[Values]:
        """Make a log and a group."""
        ledger = Ledger()
        process = ProcessContext(ledger, _FIRST, random.Random(f"{seed}/prepare"))
        self.run_scenario(path, SCENARIOS["acks"], process, self.variant_of(seed))
        shutil.rmtree(path / "groups" / GROUP / "members")  # the seats, which are no files
        marks = ledger.marks()
        ledger.close()
        return marks

    def _recover(self, path: Path, seed: str) -> None:
        Recorder().mark(Mark(MarkKind.POWER_CUT, AFTER_POWER_CUT))
        self._recorded(path, SCENARIOS["all"], seed, AFTER_POWER_CUT)

    def open(self, path: Path, process: ProcessContext, variant: str) -> GroupActor:
        """Open the log and the group."""
        return GroupActor(path, process, _MODES[variant])

    def wrong_errors(self, fault: Fault, outcome: FaultOutcome, expected: Expectation) -> list[str]:
        """Return the violations in the errors that a fault caused.

        UnknownOutcomeError is right if a record is in a file and could not be published.
        """
        if fault.error not in NO_SPACE or Kind.WRITE in fault.kinds:
            outcome = replace(outcome, errors=[each for each in outcome.errors if each != "UnknownOutcomeError"])
        return super().wrong_errors(fault, outcome, expected)

    def fails_only_here(self, error: BaseException) -> bool:
        """Always: another process may not have used the log that failed."""
        return True

    def remove(self, path: Path, memory: str) -> None:
        """Remove the logs and their shared memory."""
        shutil.rmtree(path, ignore_errors=True)
        remove_shared_memory(memory)

    def expectation(self) -> Expectation:
        """Return an empty expectation."""
        return Expectation()

    def observe(
        self, path: Path, marks: Sequence[Values] = (), *, again: bool = False, stays: bool = False
    ) -> Observation:
        """See `observation`."""
        return observe(path, stays=stays)

    def compare(
        self, seen: Observation, least: Expectation, most: Expectation, crash: Crash = Crash.POWER
    ) -> list[str]:
        """Return the violations."""
        if not seen.in_log and seen.problems:
            return [*least.wrong]  # it could not be read, as the problems say
        dead = {letter.message for letter in seen.letters}
        in_log = set(seen.in_log.values())
        return [
            *least.wrong,
            *(f"the group needs message {each}, which retention removed" for each in seen.gone if not least.resets),
            *least.lost(seen.due, dead, in_log),
            *least.returned(seen.due, dead),
            *most.invented(seen.letters, seen.due),
        ]

    def check_after_power_cut(self, before: Observation, after: Observation) -> list[str]:
        """Return the violations after a power cut."""
        wrong = []
        if before.due != after.due:
            wrong.append(f"{sorted(before.due)} were due when it was closed, but {sorted(after.due)} now")
        if missing := set(before.letters) - set(after.letters):
            wrong.append(f"{sorted(missing)} were dead letters when it was closed")
        return wrong
