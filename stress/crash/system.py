"""What a system is to the harness: how it is used, marked, observed after a crash, and compared with its marks."""

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
from stress.crash.fault import FAULTS, NO_SPACE, Fared, Fault
from stress.crash.marks import Ledger, Recorder, Values, Witness
from stress.crash.mortal import forked, told_error
from stress.crash.striker import Action, Kind, Strike, arm

_CHANGES = (
    Kind.WRITE, Kind.STORE, Kind.ALLOCATE, Kind.TRUNCATE, Kind.LINK, Kind.UNLINK, Kind.MAKE_DIRECTORY, Kind.DATA_SYNC,
    Kind.SYNC,
)  # fmt: skip
AFTER_DEATH, AFTER_POWER_CUT = 21, 20
"""The lives that go on in a recorded run with what a dead process, or a power cut, has left."""
LIVES_APART = 10
"""Between the lives of one process; fewer processes use anything one after the other."""


class Crash(enum.Enum):
    """What may have become of calls that nobody was promised.

    POWER: each may be done or not, or half.  TORN: each process's were done in their order, the last perhaps half.
    KILL: in their order, none half.
    """

    POWER = "power"
    TORN = "torn"
    KILL = "kill"


@dataclass(frozen=True)
class Who:
    """Whose marks they are.

    life: which process it is, by which its records are told from others'.  before: the marks of those before it.
    wrong: to which it adds what is wrong with what it was told.
    """

    witness: Witness
    life: int
    chance: random.Random
    before: Sequence[Values] = ()
    wrong: list[str] = field(default_factory=list)


class Actor(ABC):
    """It has something open, and does steps with it, which are its methods."""

    def __init__(self, who: Who) -> None:
        self._who = who
        self._chance = who.chance

    @abstractmethod
    def go_on(self) -> None:
        """Append one thing; also what is done once a fault is over."""

    @abstractmethod
    def close(self) -> None:
        """Close what it has, and mark what that promises."""

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Note a mark, now."""
        self._who.witness.mark(mark)

    @contextmanager
    def refusing(self, *marks: tuple[Any, ...]) -> Iterator[None]:
        """Make these marks, which say that nothing was done, if a call's error says so."""
        try:
            yield
        except (FullError, AccessError):
            for mark in marks:
                self.mark(mark)
            raise


Step = Callable[[Any], None]
"""A method of an actor."""

Workload = Callable[[Path, str], None]
"""A recorded run of something at a path, with a seed, that marks what it tries and what it is told."""

Prepare = Callable[[Path, str], list[Values]]
"""Makes what is there before a recording begins; what of it counts as marked."""


Death = Callable[[Path, Ledger, str, Strike], tuple[bool, list[str]]]
"""Has processes live and one of them die; with the path, where marks go, what is struck, and the strike.

Whether it died, and what is wrong with how the others fared.
"""


@dataclass(frozen=True)
class Scenario:
    """What a process does: these steps, or so many of them as chance has it, each as often as its number says.

    lives: how often it is opened anew for that.  after: a scenario, of who goes on after a death in this one.
    """

    steps: Sequence[Step] | Mapping[Step, int]
    count: int = 0
    lives: int = 1
    after: str = ""

    def chosen(self, chance: random.Random) -> list[Step]:
        """The steps of one life."""
        if isinstance(self.steps, Mapping):
            return chance.choices([*self.steps], [*self.steps.values()], k=self.count)
        return [*self.steps]


@dataclass(frozen=True)
class Storm:
    """Processes that are killed at random moments, and replaced.

    live: opens, and does something for ever; with the path, who it is, and how it is kept.
    marks: about so many are made between two kills.
    """

    live: Callable[[Path, Who, str], None]
    processes: int = 1
    kills: int = 10
    marks: int = 200
    share: float = 0.3


class Expectation(Protocol):
    """What must be there, and what may be, by the marks until some moment."""

    def add(self, values: Values) -> None:
        """Take one more mark into account."""

    def died(self) -> None:
        """Only a process died: all that calls had returned for is promised."""

    @property
    def promised(self) -> int:
        """How many things must be there."""


class Observed(Protocol):
    """What came of opening something.  problems: what is wrong whatever had been promised."""

    problems: list[str]


ExpectedT = TypeVar("ExpectedT", bound=Expectation)
SeenT = TypeVar("SeenT", bound=Observed)


class System(ABC, Generic[ExpectedT, SeenT]):
    """One system.

    name: of its parts, empty for the log.  kept: the ways in which it may be, by names; by_kept: rows are named by
        them; mixes: each process may have another one.
    scenarios: of processes that are killed, or meet faults.  first: the one of the process before those.
        recovers: the one of who opens what a death left, the same if empty.
    workloads: of the power part; `recovery` begins with what power cuts left of the others.  prepared: what some of
        them begin with.  choices_max: as `enumerate_states` has it.
    share: of a worker's time, against other systems.  shared: whether several processes may have it at once.
        memory: what its shared memory is named with, empty for what the recorder has it be named.
    storm: see there.  deaths: those that it arranges by itself.  fails_first: the scenario of which a sync fails before
        the deaths; see `kill`.  stride: how many calls lie between two deaths of a sweep, about.
    faults, fault_kinds: those that it is given.  faulted: in which scenarios, all if empty; after_deaths: the share
        that comes after a death.  fault_stride, places_about: how far a sweep goes on at once; about so many places of
        a fault are tried.  tries: of a kept fault, where chance has a part in it.
    cuts_between: whether the power is also cut at moments before the end, such as soon after a sync that failed.
    harmless: kinds of calls whose failing nobody is told of.  poisoning: those whose failing may have all be refused
        from then on; any may, if None.  full_errors: what may be told if there is no space.
    refuses_all: whether all is to be refused once a write or sync has failed.
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    kept: ClassVar[tuple[str, ...]] = ("",)
    by_kept: ClassVar[bool] = False
    mixes: ClassVar[bool] = False

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
    def open(self, path: Path, who: Who, kept: str) -> Actor:
        """Open it."""

    @abstractmethod
    def expectation(self) -> ExpectedT:
        """What there is before any mark."""

    @abstractmethod
    def observe(self, path: Path, marks: Sequence[Values], *, again: bool = False, stays: bool = False) -> SeenT:
        """Open what a crash left, which is changed by that.

        marks: of the whole run.  again: after it was observed before.  stays: what is there is to be there still, for
        it will be observed again.
        """

    @abstractmethod
    def compare(self, seen: SeenT, least: ExpectedT, most: ExpectedT, crash: Crash) -> list[str]:
        """What is wrong.  least: says what is promised; most: what was tried."""

    @abstractmethod
    def lasted(self, before: SeenT, after: SeenT) -> list[str]:
        """What is wrong if `after` was seen after a power cut, and `before` was seen, and closed, before it."""

    def kept_of(self, seed: str) -> str:
        """How it is kept in a recorded run."""
        return random.Random(f"{seed}/kept").choice(self.kept)

    def crash_of(self, kept: str) -> Crash:
        """What a death at a call leaves."""
        return Crash.KILL

    def background_tells(self, fault: Fault) -> bool:
        """Whether a later call, and closing, may say what befell something in the background."""
        return True

    def may_poison(self, fault: Fault) -> bool:
        """Whether all may be refused after it."""
        kinds_may = self.poisoning is None or not (fault.names_end or self.poisoning.isdisjoint(fault.kinds))
        return fault.of_syncs or kinds_may

    def wrong_errors(self, fault: Fault, fared: Fared, expected: ExpectedT) -> list[str]:
        """What is wrong with the errors that somebody was told of a fault."""
        told = set(fared.errors)
        if (fault.is_no_failure or self.harmless.issuperset(fault.kinds)) and told:
            return [f"nobody was to be told, and there was {', '.join(sorted(told))}"]
        if "PoisonedError" in told and not self.may_poison(fault):
            return ["no write or sync failed, and there was PoisonedError"]
        if fault.error in NO_SPACE and not fault.of_syncs and told - self.full_errors:
            return [f"there is no space, and there was {', '.join(sorted(told))}"]
        return []

    def fails_alone(self, error: BinlogError) -> bool:
        """Whether a failure is told to this process alone, so that others that have it open may go on."""
        return False

    def remove(self, path: Path, memory: str) -> None:
        """Remove it, and what its dead processes left in shared memory, under such names if it has some of its own."""
        shutil.rmtree(path, ignore_errors=True)

    def expect(self, marks: Iterable[Values]) -> ExpectedT:
        """What these marks come to."""
        expected = self.expectation()
        for mark in marks:
            expected.add(mark)
        return expected

    def live(self, path: Path, scenario: Scenario, who: Who, kept: str) -> None:
        """Open it, take the steps of a scenario, and close it."""
        for number in range(scenario.lives):
            each = replace(who, life=who.life + number * LIVES_APART)
            with closing(self.open(path, each, kept)) as actor:
                for step in scenario.chosen(who.chance):
                    step(actor)
        if who.wrong:
            raise RuntimeError(f"a process was told what is wrong: {who.wrong}")

    def lives(self, scenario: Scenario, count: int, kept: str = "") -> Workload:
        """A workload: so many lives.  kept: how it is kept, by chance if empty."""

        def workload(path: Path, seed: str) -> None:
            for life in range(1, count + 1):
                self._recorded(path, scenario, seed, life, kept)

        return workload

    def killed(self, scenario: Scenario, after: Scenario, calls_about: int) -> Workload:
        """A workload: a process is killed at a call that changes something, and another one goes on."""

        def workload(path: Path, seed: str) -> None:
            first = random.Random(f"{seed}/killed").randrange(calls_about)

            def die() -> None:
                arm(Strike(Action.KILL_BEFORE, first, _CHANGES), str(path))
                self._recorded(path, scenario, seed, 1)

            forked(die)
            self._recorded(path, after, seed, AFTER_DEATH)

        return workload

    def going_on(self, scenario: Scenario) -> Workload:
        """A workload: something is opened that a power cut left, and gone on with."""
        return lambda path, seed: self._recorded(path, scenario, seed, AFTER_POWER_CUT)

    def _recorded(self, path: Path, scenario: Scenario, seed: str, life: int, kept: str = "") -> None:
        who = Who(Recorder(), life, random.Random(f"{seed}/{life}"))
        self.live(path, scenario, who, kept or self.kept_of(seed))


class Observing:
    """Tells the errors of a block that observes something, and the descriptors that it leaves open."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._descriptors = open_descriptors()
        self.step = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if error is not None and isinstance(error, Exception):
            self._problems.append(f"{self.step}: {told_error(error)}" if self.step else told_error(error))
        self._problems += left_open(self._descriptors)
        return error is None or isinstance(error, Exception)
