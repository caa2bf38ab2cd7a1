"""What was done so far, as numbers that workers send and the command adds up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class Counts:
    """Of one row of the report.

    runs: recordings made, or sound logs.  states: different ones judged.  repeated: the same ones, met again at another
    prefix and judged again by what was acknowledged there.  violations: states that were not right.
    kills: processes that were killed; inside: of those, how many held a log file's lock.
    acknowledged: records that the processes were told are in the log.
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
        """The row of that name, made where it is missing."""
        return self.rows.setdefault(name, Counts())

    def as_json(self) -> dict[str, dict[str, float]]:
        """For `from_json`."""
        return {name: asdict(counts) for name, counts in self.rows.items()}


def from_json(rows: dict[str, dict[str, float]]) -> Tally:
    """What `as_json` gave."""
    return Tally({name: Counts(**counts) for name, counts in rows.items()})  # type: ignore[arg-type]


def total(tallies: Iterable[Tally]) -> Tally:
    """All of them together."""
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
