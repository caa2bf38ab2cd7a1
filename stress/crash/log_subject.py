"""A log, as the power part knows it."""

from __future__ import annotations

from pathlib import Path

from stress.crash.expectation import Expectation, group_bounds, record_of, turns_in
from stress.crash.judge import Identity, Judge, Observation, compare
from stress.crash.marks import Mark, MarkKind, Values, mark_of
from stress.crash.subject import Judging, Subject
from stress.crash.workloads import PREPARED, WORKLOADS


class LogJudging(Judging[Expectation, Observation]):
    """See `judge`."""

    def __init__(self, seed: str, marks: list[Values]) -> None:
        self._seed = seed
        found = [mark_of(values) for values in marks]
        self._judge = Judge(_records(seed, found), group_bounds(found), seed, turns_in(found))

    def expectation(self) -> Expectation:
        """Nothing."""
        return Expectation()

    def add(self, expected: Expectation, mark: Values) -> None:
        """Take one more mark into account."""
        expected.add(mark_of(mark), self._seed)

    def observe(self, path: Path) -> Observation:
        """Open a state, which is changed by that."""
        return self._judge.observe(path)

    def compare(self, seen: Observation, least: Expectation, most: Expectation) -> list[str]:
        """What is wrong."""
        return compare(seen, least.writers, most.writers, least.number_least)

    def crashed(self, least: Expectation, most: Expectation) -> tuple[Values, ...]:
        """What was tried, and what was acknowledged."""
        return tuple(mark.values for mark in (*most.tried(), *least.acknowledged()))


def _records(seed: str, marks: list[Mark]) -> dict[bytes, Identity]:
    """Which record is which, of all that were tried."""
    return {
        record_of(seed, mark.writer, index): (mark.writer, index)
        for mark in marks
        if mark.kind is MarkKind.TRIED
        for index in range(mark.first, mark.first + mark.record_count)
    }


LOGS = Subject("power", WORKLOADS, PREPARED, LogJudging)
