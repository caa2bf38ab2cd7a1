"""`python -m stress.journal`: programs of chance over a journal, step by step; see machine.py."""

from __future__ import annotations

import argparse
import sys
import time

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from stress.journal.machine import JournalMachine

_STEPS_AT_ONCE = 100


def main() -> int:
    """0 where all held; what did not is shown as the shortest program that leads to it."""
    parser = argparse.ArgumentParser(prog="python -m stress.journal", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="how many in all (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: drawn")
    options = parser.parse_args()
    programs = max(options.steps // _STEPS_AT_ONCE, 1)
    print(f"journal: seed {options.seed}, {programs:,} programs of up to {_STEPS_AT_ONCE} steps", flush=True)
    begun = time.monotonic()
    run_state_machine_as_test(
        seed(options.seed)(JournalMachine),
        settings=settings(
            max_examples=programs,
            stateful_step_count=_STEPS_AT_ONCE,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"journal: {JournalMachine.steps:,} steps in {time.monotonic() - begun:.0f} s, nothing wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
