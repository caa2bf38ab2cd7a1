"""Faults in the life of a process that marks what it does, as `stress.paging.ledger` has it, and is judged by that.

Before it a process does some of everything; there may be another one, which is killed, and whose work it opens.
"""

from __future__ import annotations

import errno
import itertools
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from stress.crash.context import Context
from stress.crash.fault_scenarios import NO_SPACE, Fared, Fault
from stress.crash.fault_sweeps import FaultSweeps, SeenT
from stress.crash.ledger import AnyLedger, Part
from stress.crash.mortal import Mortal
from stress.crash.paging.actor import Witness
from stress.crash.striker import Action, Kind, Strike, arm
from stress.paging.ledger import Ledger, Mark

_KINDS = {
    Kind.READ, Kind.WRITE, Kind.DATA_SYNC, Kind.SYNC, Kind.ALLOCATE, Kind.TRUNCATE, Kind.OPEN, Kind.LINK, Kind.UNLINK,
    Kind.MAKE_DIRECTORY, Kind.LOCK,
}  # fmt: skip
_CALLS_ABOUT = 200
_BEFORE, _KILLED, _FAULTED = 1, 2, 3


@dataclass(frozen=True)
class Case:
    """One fault: `first` is from which call on it fails, or at which alone.

    killed_at: where it is not negative, a process was killed before that call beforehand, and what it left is opened.
    """

    part: str
    scenario: str
    fault: str
    for_ever: bool
    seed: int
    first: int = 0
    killed_at: int = -1

    @property
    def row(self) -> str:
        """Of the tally."""
        return f"{self.part}/{'recovery' if self.killed_at >= 0 else self.scenario}"

    @property
    def name(self) -> str:
        """As it is told."""
        name = f"{self.scenario}, {self.fault} {'from' if self.for_ever else 'at'} {self.first}, seed {self.seed}"
        return f"{name}, after one killed at {self.killed_at}" if self.killed_at >= 0 else name


class LifeFaults(FaultSweeps[Case, SeenT]):
    """See the module.  scenarios: their names; `all` is some of everything."""

    step_max = 3
    scenarios: ClassVar[tuple[str, ...]]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._own = AnyLedger(Part, 1, 0).writers[0]

    @abstractmethod
    def _live(self, scenario: str, witness: Witness, life: int, seed: str) -> None:
        """A life without a fault."""

    @abstractmethod
    def _suffer(self, case: Case, fault: Fault, witness: Witness, life: int) -> Fared:
        """A life with one, in a process of its own, which it arms."""

    @abstractmethod
    def _judge(self, case: Case, fault: Fault, fared: Fared, marks: list[Mark]) -> tuple[SeenT, list[str]]:
        """What is there behind all lives, and what is wrong."""

    def _all_sweeps(self) -> Iterator[Case]:
        for scenario, name, for_ever in itertools.product(self.scenarios, self.faults, (False, True)):
            if _KINDS.issuperset(self.faults[name].kinds):
                killed_at = self._chance.randrange(_CALLS_ABOUT) if self._chance.random() < 0.3 else -1
                yield Case(self.part, scenario, name, for_ever, self._chance.randrange(1 << 30), killed_at=killed_at)

    def _run(self, case: Case, fault: Fault) -> tuple[SeenT, list[str]]:
        path = self._folder / "ledger"
        ledger = Ledger(path)
        try:
            self._live("all", ledger, _BEFORE, str(case.seed))
            if case.killed_at >= 0:
                self._kill(case, ledger)
            fared = self._fared(self._own, lambda: self._suffer(case, fault, ledger, _FAULTED))
            seen, wrong = self._judge(case, fault, fared, ledger.marks())
        finally:
            ledger.close()
            path.unlink()
        return seen, fared.wrong + wrong

    def _kill(self, case: Case, ledger: Ledger) -> None:
        def live() -> None:
            arm(Strike(Action.KILL_BEFORE, case.killed_at), str(self._path))
            self._live("all", ledger, _KILLED, str(case.seed))

        Mortal(live, self._own).wait()

    def _arm(self, case: Case, fault: Fault) -> None:
        """Have the fault befall this process from now on."""
        arm(fault.strike(case.first, for_ever=case.for_ever), str(self._path), self._slots[0])


def wrong_errors(fault: Fault, fared: Fared) -> list[str]:
    """What is wrong with the errors that somebody was told of a fault."""
    told = sorted(set(fared.errors))
    if fault.error in (0, errno.EINTR) and told:
        return [f"nobody was to be told, and there was {', '.join(told)}"]
    # Where it lacks for a write into what was set aside, as a log, nobody can go on.
    if fault.error in NO_SPACE and not fault.of_syncs and set(told) - {"FullError", "PoisonedError"}:
        return [f"there is no space, and there was {', '.join(told)}"]
    return []
