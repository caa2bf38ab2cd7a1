"""Run the model and print its violations: `python -m stress.group_model --seconds 60 --seed 1 [--seeded-bug NAME]`."""

from __future__ import annotations

import argparse
import sys
import time

from stress.group_model.audit import ViolationError
from stress.group_model.seeded_bugs import SEEDED_BUGS
from stress.group_model.world import World

STEP_COUNT = 300
_VIOLATIONS_MAX = 10


def run_one(seed: int, seeded: frozenset[str], *, trace: bool = False) -> str | None:
    """Run one seed; return the violation, or None."""
    world = World(seed, seeded, trace=trace)
    try:
        world.run(STEP_COUNT)
    except ViolationError as violation:
        return str(violation)
    return None


def run_many(
    seed: int, seeded: frozenset[str], *, seconds: float, violations_max: int, runs_max: int = 0
) -> tuple[int, list[tuple[int, str]]]:
    """Run the seeds `seed * 10**9 + 0, 1, ...` until a limit is reached; return the runs and the violations."""
    violations: list[tuple[int, str]] = []
    runs, until = 0, time.monotonic() + seconds
    while time.monotonic() < until and len(violations) < violations_max and (not runs_max or runs < runs_max):
        found = run_one(seed * 10**9 + runs, seeded)
        if found is not None:
            violations.append((seed * 10**9 + runs, found))
        runs += 1
    return runs, violations


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m stress.group_model", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to run (60)")
    parser.add_argument("--seed", type=int, default=1, help="runs differ by it (1)")
    parser.add_argument("--seeded-bug", choices=sorted(SEEDED_BUGS), help="run with this bug, which must be found")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run only this seed, and print its steps")
    options = parser.parse_args()
    seeded = frozenset([options.seeded_bug] if options.seeded_bug else [])
    if options.replay is not None:
        violation = run_one(options.replay, seeded, trace=True)
        print(violation or "nothing wrong")
        return 1 if violation else 0
    runs, violations = run_many(options.seed, seeded, seconds=options.seconds, violations_max=_VIOLATIONS_MAX)
    name = f" --seeded-bug {options.seeded_bug}" if options.seeded_bug else ""
    for seed, text in violations:
        print(f"violation: {text}\n  replay: python -m stress.group_model --replay {seed}{name}")
    print(f"{runs} runs, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
