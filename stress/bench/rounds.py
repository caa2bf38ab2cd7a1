"""Rounds: each contestant is measured once in each, one after another, so that all have the same conditions.

Every other round is in reverse order, so that no contestant always follows the same one.  Unwritten data, and the
kernel's work for removed files, are finished before the next measurement (sync(2)).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stress.bench.contestant import FLOOR, Contestant, Row
from stress.bench.sample import MeasureError, Sample, Spread

_GIB = 1 << 30

# On an idle machine a floor hardly differs from round to round.
_STEADY_MAX = 2.0


@dataclass
class Result:
    """The result of one contestant in one row.

    samples: one a round; None if there is none.
    missing: why it was not measured.  failure: the error of its measurement, which is not repeated.
    """

    row: Row
    contestant: Contestant
    missing: str | None = None
    failure: str | None = None
    samples: list[Sample | None] = field(default_factory=list)

    @property
    def values(self) -> list[float]:
        """The figures, one for each round that has one."""
        return [sample.value for sample in self.samples if sample]

    @property
    def spread(self) -> Spread | None:
        """Return the median and the range of the figures."""
        return Spread.of(self.values) if self.values else None

    def wait_ns(self, name: str) -> Spread | None:
        """Return the median and the range over the rounds of `p50_ns`, `p99_ns` or `longest_ns`."""
        values = [getattr(sample.waits, name) for sample in self.samples if sample and sample.waits]
        return Spread.of(values) if values else None


class Results:
    """The results of all contestants, in the order of the rows."""

    def __init__(self, rows: Sequence[Row], refuse: Callable[[Row], str | None] = lambda row: None) -> None:
        self.rows = tuple(rows)
        self._results = {
            (row.name, contestant.name): Result(row, contestant, refuse(row) or contestant.missing())
            for row in rows
            for contestant in row.contestants
        }

    def all(self) -> list[Result]:
        """Return all results, row by row."""
        return list(self._results.values())

    def of(self, row: Row) -> list[Result]:
        """Return the results of a row."""
        return [self._results[row.name, contestant.name] for contestant in row.contestants]

    def find(self, row: str, contestant: str) -> Result | None:
        """Return one result, or None if it was not measured."""
        return self._results.get((row, contestant))

    @property
    def unsteady(self) -> str | None:
        """The floor that differed most between rounds, if something else must have used the machine."""
        floors = [(result, result.spread) for result in self.all() if result.contestant.name.startswith(FLOOR)]
        worst = max(
            ((spread.high / spread.low, result) for result, spread in floors if spread), default=None, key=_first
        )
        if worst is None or worst[0] <= _STEADY_MAX:
            return None
        times, result = worst
        return (
            f"something else used the machine during the run: in `{result.row.name}`, "
            f"the figures of `{result.contestant.name}` differed by a factor of {times:.1f} between rounds"
        )

    @property
    def failures(self) -> list[Result]:
        """The results that failed."""
        return [result for result in self._results.values() if result.failure]


def _first(pair: tuple[float, Result]) -> float:
    return pair[0]


def ratio(one: Result | None, other: Result | None) -> Spread | None:
    """Return the ratio of two results, round by round: median and range, or None if no round has both."""
    if one is None or other is None:
        return None
    pairs = zip(one.samples, other.samples, strict=False)
    ratios = [a.value / b.value for a, b in pairs if a and b and b.value]
    return Spread.of(ratios) if ratios else None


def run_rounds(
    rows: Sequence[Row],
    *,
    rounds: int,
    seconds: float,
    directory: Path,
    tell: Callable[[int, Result], None],
) -> Results:
    """Measure each contestant once a round, each time in a new directory in `directory`, which is removed afterwards.

    Rows for which there is too little space are left out, and say so.
    tell: called before each measurement, with the number of its round, from 0.
    """
    free = shutil.disk_usage(directory).free
    results = Results(rows, lambda row: _too_large(row, seconds, free))
    for number in range(rounds):
        for result in _order(results, number):
            tell(number, result)
            result.samples.append(_measure(result, seconds, directory))
    return results


def _too_large(row: Row, seconds: float, free: int) -> str | None:
    needed = row.disk_bytes * row.seconds_factor * seconds
    if needed <= free:
        return None
    return f"it may put {needed / _GIB:,.0f} GiB on the disk, and {free / _GIB:,.0f} are free (see --seconds)"


def _order(results: Results, number: int) -> Iterator[Result]:
    there = [result for result in results.all() if not result.missing]
    return iter(there) if number % 2 == 0 else reversed(there)


def _measure(result: Result, seconds: float, directory: Path) -> Sample | None:
    if result.failure:
        return None
    with tempfile.TemporaryDirectory(prefix="bench-", dir=directory) as place:
        os.sync()
        try:
            return result.contestant.measure(Path(place), seconds * result.row.seconds_factor)
        except MeasureError as error:
            result.failure = str(error)
            return None
