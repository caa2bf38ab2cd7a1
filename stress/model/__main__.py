"""Run the model and print its violations: `python -m stress.model --seconds 60 --seed 1 [--seeded-bug NAME]`."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field

from stress.model.audit import ViolationError
from stress.model.seeded_bugs import SEEDED_BUGS
from stress.model.world import World

STEP_COUNT = 90
_VIOLATIONS_MAX = 10


@dataclass(slots=True)
class Summary:
    """The totals of several runs."""

    runs: int = 0
    steps: int = 0
    states: set[int] = field(default_factory=set)
    violations: list[tuple[int, str]] = field(default_factory=list)


def run_one(seed: int, seeded: frozenset[str], *, trace: bool = False) -> tuple[World, str | None]:
    """Run one seed; return the world and the violation, if there is one."""
    world = World(seed, seeded, trace=trace)
    try:
        world.run(STEP_COUNT)
    except ViolationError as violation:
        return world, str(violation)
    return world, None


def run_many(
    seed: int, seeded: frozenset[str], *, seconds: float, violations_max: int = _VIOLATIONS_MAX, runs_max: int = 0
) -> Summary:
    """Run the seeds `seed * 10**9 + 0, 1, ...` until the limit of time, runs or violations is reached."""
    summary, until = Summary(), time.monotonic() + seconds
    while time.monotonic() < until and (not runs_max or summary.runs < runs_max):
        run_seed = seed * 10**9 + summary.runs
        world, violation = run_one(run_seed, seeded)
        summary.runs += 1
        summary.steps += world.steps
        summary.states |= world.states
        if violation is not None:
            summary.violations.append((run_seed, violation))
            if len(summary.violations) >= violations_max:
                break
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m stress.model", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to run (60)")
    parser.add_argument("--seed", type=int, default=1, help="runs differ by it (1)")
    parser.add_argument("--seeded-bug", choices=sorted(SEEDED_BUGS), help="run with this bug, which must be found")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run only this seed, and print its steps")
    options = parser.parse_args()
    seeded = frozenset([options.seeded_bug] if options.seeded_bug else [])
    if options.replay is not None:
        world, violation = run_one(options.replay, seeded, trace=True)
        print(violation or f"nothing wrong in {world.steps} steps")
        return 1 if violation else 0
    summary = run_many(options.seed, seeded, seconds=options.seconds)
    print(f"{summary.runs} runs, {summary.steps} steps, {len(summary.states)} states after a death, power cut or end")
    name = f" --seeded-bug {options.seeded_bug}" if options.seeded_bug else ""
    for seed, violation in summary.violations:
        print(f"violation: {violation}\n  replay: python -m stress.model --replay {seed}{name}")
    print(f"{len(summary.violations)} violations")
    return 1 if summary.violations else 0


if __name__ == "__main__":
    sys.exit(main())
