"""`python -m stress.journal`: programs of chance over a journal, step by step; see machine.py."""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from stress.journal.machine import JournalMachine

_STEPS_AT_ONCE = 100


def main() -> int:
    """0 where all held; what did not is shown as the shortest program that leads to it."""
    parser = argparse.ArgumentParser(prog="python -m stress.journal", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="how many in all, at least (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: drawn")
    options = parser.parse_args()
    print(f"journal: seed {options.seed}, {options.steps:,} steps, programs of up to {_STEPS_AT_ONCE}", flush=True)
    begun = time.monotonic()
    # Hypothesis ends some programs early: what that leaves is made up for, by another seed.
    for round_seed in itertools.count(options.seed):
        _run(round_seed, max((options.steps - JournalMachine.steps) // _STEPS_AT_ONCE, 1))
        if JournalMachine.steps >= options.steps:
            break
    print(f"journal: {JournalMachine.steps:,} steps in {time.monotonic() - begun:.0f} s, nothing wrong")
    return 0


def _run(round_seed: int, programs: int) -> None:
    run_state_machine_as_test(
        seed(round_seed)(JournalMachine),
        settings=settings(
            max_examples=programs,
            stateful_step_count=_STEPS_AT_ONCE,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
