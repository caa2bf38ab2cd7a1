"""The system of a sealed log: writers in mixed modes, and a sealer that hands its checkpoints to an anchor.

The promises are those of `expectation`; how a state is observed, in `observation`.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from binlog.format.seal.state import STATEMENTS_FILE
from stress.crash.failure_modes.fault import NO_SPACE, Fault, FaultOutcome
from stress.crash.marks import Ledger, Values
from stress.crash.preloaded.injector import Action, Injection, Kind, arm
from stress.crash.system import AFTER_DEATH, Crash, Prepare, ProcessContext, Scenario, Storm, System, Workload
from stress.crash.systems.seal.actor import SCENARIOS, SealActor
from stress.crash.systems.seal.expectation import Expectation
from stress.crash.systems.seal.observation import CHECKERS, Observation, observe
from stress.crash.workers.victim_process import VictimProcess, remove_shared_memory, run_and_kill

_PROCESSES = 4
_FIRST = 9  # the number of the process that makes a sealed log before a recorded run
_CALLS_ABOUT = 150
_STATEMENTS = 2  # those of a service: of its start and its stop
_SYNCS = (Kind.DATA_SYNC, Kind.SYNC)


def _use_until_killed(path: Path, process: ProcessContext, variant: str) -> None:
    actor = SealActor(path, process)
    if process.number % _PROCESSES == 0:
        actor.serve()
        actor.wait_for_service()
    while True:
        for step in SCENARIOS["writer"].chosen(process.chance):
            step(actor)


class SealSystem(System[Expectation, Observation]):
    """See the module."""

    name = "seal"
    noun = "sealed"
    shared = True
    scenarios: ClassVar[Mapping[str, Scenario]] = {
        name: SCENARIOS[name] for name in ("begun", "rounds", "tiles", "files", "runs", "service")
    }
    first = "begun"
    recovers = "rounds"
    storm = Storm(_use_until_killed, _PROCESSES, kills=30, marks=60)
    choices_max = 24
    fault_kinds = frozenset({
        Kind.READ, Kind.WRITE, Kind.DATA_SYNC, Kind.SYNC, Kind.ALLOCATE, Kind.TRUNCATE, Kind.OPEN, Kind.LINK,
        Kind.UNLINK, Kind.MAKE_DIRECTORY, Kind.LOCK,
    })  # fmt: skip
    faulted = ("rounds", "files", "runs")
    places_about = 20
    tries = 20
    # A failure of the log is none of the seal, and vice versa.
    refuses_all = False

    def __init__(self) -> None:
        self.workloads: Mapping[str, Workload] = {
            "rounds": self.repeated(SCENARIOS["rounds"], 2),
            "tiles": self.repeated(SCENARIOS["rounds"], 1),
            "files": self.repeated(SCENARIOS["files"], 1),
            "service": self.repeated(SCENARIOS["service"], 1),
            "beside": self._beside,
            "told": self._told,
            "killed": self.killed(SCENARIOS["rounds"], SCENARIOS["files"], _CALLS_ABOUT),
            "recovery": self.continued(SCENARIOS["rounds"]),
        }
        # Most runs begin with a sealed log, because its creation is the larger part of a run.
        self.prepared: Mapping[str, Prepare] = {
            "tiles": partial(self._prepare, "tiles"),
            **dict.fromkeys(("files", "service", "beside", "told"), partial(self._prepare, "begun")),
        }

    def _beside(self, path: Path, seed: str) -> None:
        """Append in one process, and seal in another."""
        victims = [
            VictimProcess(partial(self._recorded, path, SCENARIOS[name], seed, process_number))
            for process_number, name in enumerate(("writer", "sealer"), 1)
        ]
        if failures := [failure for victim in victims for failure in victim.failures()]:
            raise RuntimeError(f"processes of a workload failed: {failures}")

    def _told(self, path: Path, seed: str) -> None:
        """Kill a process before it syncs a statement, and continue without another statement."""
        statement = random.Random(f"{seed}/statement").randrange(_STATEMENTS)

        def die() -> None:
            arm(Injection(Action.KILL_BEFORE, statement, _SYNCS, names_end=STATEMENTS_FILE), str(path))
            self._recorded(path, SCENARIOS["runs"], seed, 1)

        run_and_kill(die)
        self._recorded(path, SCENARIOS["begun"], seed, AFTER_DEATH)

    def _prepare(self, name: str, path: Path, seed: str) -> list[Values]:
        """Make a sealed log by a scenario."""
        ledger = Ledger()
        process = ProcessContext(ledger, _FIRST, random.Random(f"{seed}/prepare"))
        self.run_scenario(path, SCENARIOS[name], process, "")
        marks = ledger.marks()
        ledger.close()
        return marks

    def open(self, path: Path, process: ProcessContext, variant: str) -> SealActor:
        """Open a writer of the log."""
        return SealActor(path, process)

    def wrong_errors(self, fault: Fault, outcome: FaultOutcome, expected: Expectation) -> list[str]:
        """Return the violations in the errors that a fault caused.

        UnknownOutcomeError is right if a record is in a file and could not be published.  SealError is never right: it
        says that the log was changed.
        """
        wrong = ["a fault was reported as a changed log"] if "SealError" in outcome.errors else []
        if fault.error not in NO_SPACE or Kind.WRITE in fault.kinds:
            outcome = replace(outcome, errors=[each for each in outcome.errors if each != "UnknownOutcomeError"])
        return wrong + super().wrong_errors(fault, outcome, expected)

    def fails_only_here(self, error: BaseException) -> bool:
        """Always: another process may not have used the failed call."""
        return True

    def remove(self, path: Path, memory: str) -> None:
        """Remove the files and the shared memory."""
        shutil.rmtree(path, ignore_errors=True)
        remove_shared_memory(memory)

    def expectation(self) -> Expectation:
        """Return an empty expectation."""
        return Expectation()

    def observe(
        self, path: Path, marks: Sequence[Values] = (), *, again: bool = False, stays: bool = False
    ) -> Observation:
        """See `observation`."""
        return observe(path, marks, checker=CHECKERS[again])

    def compare(
        self, seen: Observation, least: Expectation, most: Expectation, crash: Crash = Crash.POWER
    ) -> list[str]:
        """Return the violations."""
        if seen.problems:
            return [*least.wrong]  # it could not be read, as the problems say
        return [*least.violations(seen)]

    def check_after_power_cut(self, before: Observation, after: Observation) -> list[str]:
        """Return the violations after a power cut."""
        wrong = []
        if missing := before.records - after.records:
            wrong.append(f"{sorted(missing)} were in the log when it was closed")
        if after.opened_size < before.size:
            wrong.append(f"the sealer continued from {after.opened_size} records, after a checkpoint of {before.size}")
        return wrong
