"""What is broken, a log or a store of messages: how the power part has it used, and its states judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from stress.crash.marks import Values
from stress.crash.recording import Prepare

Expected = TypeVar("Expected")
Seen = TypeVar("Seen")

Workload = Callable[[Path, str], None]
"""A run of a log or store at a path, with a seed, that marks what it tries and what it is told."""


class Judging(ABC, Generic[Expected, Seen]):
    """Judges the states of one run.

    Expected: what must be there, and what may be, by the marks until some tick.  Seen: what came of opening a state.
    """

    @abstractmethod
    def expectation(self) -> Expected:
        """What there is before any mark."""

    @abstractmethod
    def add(self, expected: Expected, mark: Values) -> None:
        """Take one more mark into account."""

    @abstractmethod
    def observe(self, path: Path) -> Seen:
        """Open a state, which is changed by that."""

    @abstractmethod
    def compare(self, seen: Seen, least: Expected, most: Expected) -> list[str]:
        """What is wrong.

        least: by the marks until the last tick at which the state may arise; most: until the first.
        """

    @abstractmethod
    def crashed(self, least: Expected, most: Expected) -> tuple[Values, ...]:
        """The marks of a run that begins with the state."""


@dataclass(frozen=True)
class Subject:
    """A log, or a store.

    part: the name of its power part.  prepared: what makes what a workload begins with, where that is not nothing.
    judging: of a run with a seed and these marks.  choices_max: as `enumerate_states` has it.
    The workload `recovery` begins with states that power cuts left of the others.
    """

    part: str
    workloads: Mapping[str, Workload]
    prepared: Mapping[str, Prepare]
    judging: Callable[[str, list[Values]], Judging[Any, Any]]
    choices_max: int | None = None

    def prepare(self, workload: str) -> Prepare:
        """What a workload begins with."""
        return self.prepared.get(workload, lambda path, seed: [])
