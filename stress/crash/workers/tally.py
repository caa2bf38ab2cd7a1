"""Counters of a run, which workers send and the command adds up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class Counts:
    """The counters of one row of the report.

    runs: recordings, or intact logs.  states: distinct states checked.  repeated: equal states at another prefix,
        compared again with the marks until there.  violations: states that were wrong.
    kills: processes killed; inside: of those, the ones that held a log file's lock.
    acknowledged: records whose append had returned.
    """

    runs: int = 0
    states: int = 0
    repeated: int = 0
    violations: int = 0
    seconds: float = 0.0
    kills: int = 0
    inside: int = 0
    acknowledged: int = 0


@dataclass(slots=True)
class Tally:
    """The rows, by part and name: `power/cutover`."""

    rows: dict[str, Counts] = field(default_factory=dict)

    def row(self, name: str) -> Counts:
        """Return the row of that name, and make it if it is missing."""
        return self.rows.setdefault(name, Counts())

    def as_json(self) -> dict[str, dict[str, float]]:
        """Return the rows for `from_json`."""
        return {name: asdict(counts) for name, counts in self.rows.items()}


def from_json(rows: dict[str, dict[str, float]]) -> Tally:
    """Return the tally from `as_json`."""
    return Tally({name: Counts(**counts) for name, counts in rows.items()})  # type: ignore[arg-type]


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the sum of tallies."""
    whole = Tally()
    for tally in tallies:
        for name, counts in tally.rows.items():
            row = whole.row(name)
            row.runs += counts.runs
            row.states += counts.states
            row.repeated += counts.repeated
            row.violations += counts.violations
            row.seconds += counts.seconds
            row.kills += counts.kills
            row.inside += counts.inside
            row.acknowledged += counts.acknowledged
    return whole
