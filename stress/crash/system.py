"""The interface between the harness and a system: how it is used, marked, observed after a crash, and compared."""

from __future__ import annotations

import enum
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from binlog.errors import AccessError, BinlogError, FullError
from stress.crash.descriptors import left_open, open_descriptors
from stress.crash.failure_modes.fault import FAULTS, NO_SPACE, Fault, FaultOutcome
from stress.crash.marks import Ledger, Recorder, Values, Witness
from stress.crash.preloaded.injector import Action, Injection, Kind, arm
from stress.crash.workers.victim_process import error_text, run_and_kill

CHANGES = (
    Kind.WRITE, Kind.STORE, Kind.ALLOCATE, Kind.TRUNCATE, Kind.LINK, Kind.UNLINK, Kind.MAKE_DIRECTORY, Kind.DATA_SYNC,
    Kind.SYNC,
)  # fmt: skip
"""The calls that change files, or make changes durable."""
AFTER_DEATH, AFTER_POWER_CUT = 21, 20
"""The numbers of the processes that continue, in a recorded run, after a death or a power cut."""
PROCESS_NUMBERS_APART = 10
"""The distance between the numbers of one process that opens several times; fewer processes than that use a system in
turn.
"""


class Crash(enum.Enum):
    """The possible outcomes of calls that were not promised.

    POWER: each is done, not done, or half done.  TORN: the calls of a process are done in order, the last perhaps half.
    KILL: they are done in order, and none half.
    """

    POWER = "power"
    TORN = "torn"
    KILL = "kill"


@dataclass(frozen=True)
class ProcessContext:
    """The identity of a process, for its marks.

    number: of the process, which distinguishes its records from others'.  before: the marks of earlier processes.
    wrong: violations that the process itself notices.
    """

    witness: Witness
    number: int
    chance: random.Random
    before: Sequence[Values] = ()
    wrong: list[str] = field(default_factory=list)


class Actor(ABC):
    """A process that has an engine open; its steps are methods."""

    def __init__(self, process: ProcessContext) -> None:
        self._process = process
        self._chance = process.chance

    @abstractmethod
    def append_one(self) -> None:
        """Append one item; also the step after a fault has ended."""

    @abstractmethod
    def close(self) -> None:
        """Close the engine, and mark its promise."""

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Write a mark."""
        self._process.witness.mark(mark)

    @contextmanager
    def refusing(self, *marks: tuple[Any, ...]) -> Iterator[None]:
        """Write these marks, which say that nothing was done, if the call's error says so."""
        try:
            yield
        except (FullError, AccessError):
            for mark in marks:
                self.mark(mark)
            raise


Step = Callable[[Any], None]
"""A method of an actor."""

Workload = Callable[[Path, str], None]
"""A recorded run at a path, with a seed, that marks its calls and their results."""

Prepare = Callable[[Path, str], list[Values]]
"""Makes the files that exist before a recording begins, and returns their marks."""


Death = Callable[[Path, Ledger, str, Injection], tuple[bool, list[str]]]
"""Runs processes and kills one of them.  Arguments: path, ledger, prefix of the paths that count, injection.

Returns whether it died, and the failures of the others.
"""


@dataclass(frozen=True)
class Scenario:
    """The steps of a process: these, or `count` of them at random, each with its weight.

    open_count: how often it opens the engine for that.  after: the scenario of the process that continues after a
    death.
    """

    steps: Sequence[Step] | Mapping[Step, int]
    count: int = 0
    open_count: int = 1
    after: str = ""

    def chosen(self, chance: random.Random) -> list[Step]:
        """Return the steps between one opening and closing."""
        if isinstance(self.steps, Mapping):
            return chance.choices([*self.steps], [*self.steps.values()], k=self.count)
        return [*self.steps]


@dataclass(frozen=True)
class Storm:
    """Processes that are killed at random moments, and replaced.

    run: opens the engine and works until it is killed; arguments: path, process, variant.
    marks: made between two kills, on average.
    """

    run: Callable[[Path, ProcessContext, str], None]
    processes: int = 1
    kills: int = 10
    marks: int = 200
    share: float = 0.3


class Expectation(Protocol):
    """The states that are possible according to the marks until some moment."""

    def add(self, values: Values) -> None:
        """Add one mark."""

    def died(self) -> None:
        """Note that only a process died: every call that returned is promised."""

    @property
    def promised(self) -> int:
        """The number of promised items."""


class Observed(Protocol):
    """The observation of a state.  problems: violations that do not depend on the marks."""

    problems: list[str]


ExpectedT = TypeVar("ExpectedT", bound=Expectation)
SeenT = TypeVar("SeenT", bound=Observed)


class System(ABC, Generic[ExpectedT, SeenT]):
    """One engine under test.

    name: the prefix of its parts, empty for the log.  noun: the name of its folder in a run.
    variants: their names; rows_by_variant: whether rows are named after them; mixes_variants: whether each process may
        use another one.
    scenarios: of processes that are killed, or meet faults.  first: the one of the process before those.  recovers: the
        one of the process that opens after a death, the same if empty.
    workloads: of the power part; `recovery` begins with states that power cuts left of the others.  prepared: the
        initial files of some.  choices_max: see `enumerate_states`.
    share: of a worker's time, relative to other systems.  shared: whether several processes may have it open.  memory:
        the prefix of its shared memory's names, empty for the recorder's.
    storm: see Storm.  deaths: those that the system arranges itself.  fails_first: the scenario in which a sync fails
        before the deaths; see `kill`.  stride: the average distance, in calls, between two deaths of a sweep.
    faults, fault_kinds: those that are injected.  faulted: into which scenarios, all if empty.  after_deaths: the share
        that follows a death.  fault_stride, places_about: the step of a sweep, or the number of calls that it tries.
        tries: repetitions of a replay, if chance has a part in it.
    cuts_between: whether the power is also cut before the end, such as soon after a failed sync.
    harmless: kinds of calls that fail without a report.  poisoning: kinds that may poison the engine if they fail;
        any, if None.  full_errors: the errors that are right if there is no space.
    refuses_all: whether everything is refused after a failed write or sync.
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    variants: ClassVar[tuple[str, ...]] = ("",)
    rows_by_variant: ClassVar[bool] = False
    mixes_variants: ClassVar[bool] = False

    scenarios: ClassVar[Mapping[str, Scenario]]
    first: ClassVar[str] = "all"
    recovers: ClassVar[str] = ""

    workloads: Mapping[str, Workload]
    prepared: Mapping[str, Prepare] = {}
    choices_max: ClassVar[int | None] = 10

    share: ClassVar[float] = 1.0
    shared: ClassVar[bool] = False
    memory: ClassVar[str] = ""
    storm: ClassVar[Storm | None] = None
    deaths: ClassVar[Mapping[str, Death]] = {}
    fails_first: ClassVar[str] = ""
    stride: ClassVar[int] = 6

    faults: ClassVar[Mapping[str, Fault]] = FAULTS
    fault_kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    faulted: ClassVar[tuple[str, ...]] = ()
    after_deaths: ClassVar[float] = 0.3
    fault_stride: ClassVar[int] = 3
    places_about: ClassVar[int | None] = None
    tries: ClassVar[int] = 120
    cuts_between: ClassVar[bool] = False
    harmless: ClassVar[frozenset[Kind]] = frozenset()
    poisoning: ClassVar[frozenset[Kind] | None] = None
    full_errors: ClassVar[frozenset[str]] = frozenset({"FullError", "PoisonedError"})
    refuses_all: ClassVar[bool] = True

    @abstractmethod
    def open(self, path: Path, process: ProcessContext, variant: str) -> Actor:
        """Open the engine."""

    @abstractmethod
    def expectation(self) -> ExpectedT:
        """Return the expectation before any mark."""

    @abstractmethod
    def observe(self, path: Path, marks: Sequence[Values], *, again: bool = False, stays: bool = False) -> SeenT:
        """Open the state after a crash, which changes it, and return the observation.

        marks: of the whole run.  again: whether it was observed before.  stays: leave its content, because it will be
            observed again.
        """

    @abstractmethod
    def compare(self, seen: SeenT, least: ExpectedT, most: ExpectedT, crash: Crash) -> list[str]:
        """Return the violations.  least: the promised state; most: the calls tried."""

    @abstractmethod
    def check_after_power_cut(self, before: SeenT, after: SeenT) -> list[str]:
        """Return the violations if `before` was observed and closed, and `after` was observed after a power cut."""

    def variant_of(self, seed: str) -> str:
        """Return the variant of a recorded run."""
        return random.Random(f"{seed}/kept").choice(self.variants)

    def crash_of(self, variant: str) -> Crash:
        """Return the possible outcomes after a death in a call."""
        return Crash.KILL

    def background_reports(self, fault: Fault) -> bool:
        """Whether a later call, or closing, may report a failure of background work."""
        return True

    def may_poison(self, fault: Fault) -> bool:
        """Whether the engine may be poisoned by the fault."""
        kinds_may = self.poisoning is None or not (fault.names_end or self.poisoning.isdisjoint(fault.kinds))
        return fault.of_syncs or kinds_may

    def wrong_errors(self, fault: Fault, outcome: FaultOutcome, expected: ExpectedT) -> list[str]:
        """Return the violations in the errors that a fault caused."""
        reported = set(outcome.errors)
        if (fault.is_no_failure or self.harmless.issuperset(fault.kinds)) and reported:
            return [f"no error was expected, but there was {', '.join(sorted(reported))}"]
        if "PoisonedError" in reported and not self.may_poison(fault):
            return ["no write or sync failed, but there was PoisonedError"]
        if fault.error in NO_SPACE and not fault.of_syncs and reported - self.full_errors:
            return [f"there is no space, but there was {', '.join(sorted(reported))}"]
        return []

    def fails_only_here(self, error: BinlogError) -> bool:
        """Whether only this process is refused after the failure, so that others that have it open may continue."""
        return False

    def remove(self, path: Path, memory: str) -> None:
        """Remove the files, and the shared memory of dead processes if its names are the system's own."""
        shutil.rmtree(path, ignore_errors=True)

    def expect(self, marks: Iterable[Values]) -> ExpectedT:
        """Return the expectation after these marks."""
        expected = self.expectation()
        for mark in marks:
            expected.add(mark)
        return expected

    def run_scenario(self, path: Path, scenario: Scenario, process: ProcessContext, variant: str) -> None:
        """Open the engine, take the steps of a scenario, and close it."""
        for number in range(scenario.open_count):
            each = replace(process, number=process.number + number * PROCESS_NUMBERS_APART)
            with closing(self.open(path, each, variant)) as actor:
                for step in scenario.chosen(process.chance):
                    step(actor)
        if process.wrong:
            raise RuntimeError(f"a process noticed violations: {process.wrong}")

    def repeated(self, scenario: Scenario, count: int, variant: str = "") -> Workload:
        """Return a workload that runs a scenario `count` times.  variant: random if empty."""

        def workload(path: Path, seed: str) -> None:
            for process_number in range(1, count + 1):
                self._recorded(path, scenario, seed, process_number, variant)

        return workload

    def killed(self, scenario: Scenario, after: Scenario, calls_about: int) -> Workload:
        """Return a workload in which a process is killed at a call that changes something, and another one continues.

        calls_about: about how many such calls the process makes; it is killed at a random one, or at its end.
        """

        def workload(path: Path, seed: str) -> None:
            first = random.Random(f"{seed}/killed").randrange(calls_about)

            def die() -> None:
                arm(Injection(Action.KILL_BEFORE, first, CHANGES), str(path))
                self._recorded(path, scenario, seed, 1)

            run_and_kill(die)
            self._recorded(path, after, seed, AFTER_DEATH)

        return workload

    def continued(self, scenario: Scenario) -> Workload:
        """Return a workload that opens the state after a power cut and continues."""
        return lambda path, seed: self._recorded(path, scenario, seed, AFTER_POWER_CUT)

    def _recorded(self, path: Path, scenario: Scenario, seed: str, process_number: int, variant: str = "") -> None:
        process = ProcessContext(Recorder(), process_number, random.Random(f"{seed}/{process_number}"))
        self.run_scenario(path, scenario, process, variant or self.variant_of(seed))


class ProblemCollector:
    """Collects the errors of a block that observes a state, and the descriptors that it leaks."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._descriptors = open_descriptors()
        self.step = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if error is not None and isinstance(error, Exception):
            self._problems.append(f"{self.step}: {error_text(error)}" if self.step else error_text(error))
        self._problems += left_open(self._descriptors)
        return error is None or isinstance(error, Exception)
