"""Check that every seeded bug is found, with several seeds: python -m stress.crash.canaries, or `make canaries`.

Each run uses all cores, runs the part that should find the bug, and stops at its first violation.  The build without
bugs runs all parts with the same seeds and must have no violation.  With five seeds this takes some three hours.
Exit codes: 0 each bug was found and the clean build passed, 1 otherwise, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stress.crash.seeded_bugs import SEEDED_BUGS

_SECONDS, _CLEAN_SECONDS = 900.0, 300.0
_SEEDS = 5


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m stress.crash.canaries", description="Check that each seeded bug is found."
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        metavar="S",
        help=f"time limit of one run; without a bug at most {_CLEAN_SECONDS:.0f}",
    )
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help=f"default: {_SEEDS} random seeds")
    parser.add_argument("--only", nargs="+", choices=SEEDED_BUGS, default=list(SEEDED_BUGS), metavar="NAME")
    parser.add_argument("--no-clean-runs", action="store_true", help="skip the runs without a bug")
    given = parser.parse_args()
    given.seeds = given.seeds or random.sample(range(1_000_000), _SEEDS)
    return given


def _violated(seed: int, seconds: float, *options: str) -> tuple[bool, float]:
    """Return whether a run had a violation, and how many seconds it took."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "stress.crash", "--seed", str(seed), "--seconds", str(seconds), *options]
    with tempfile.TemporaryDirectory(prefix="binlog-canaries-") as folder:
        command += ["--keep", str(Path(folder) / "saved")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or (done.returncode == 1) != ("VIOLATION" in done.stdout):
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.returncode == 1, time.monotonic() - begun


def main() -> int:
    """See the module."""
    given = _arguments()
    wrong = 0
    for seed in given.seeds:
        for name in given.only:
            part = SEEDED_BUGS[name].part
            found, seconds = _violated(seed, given.seconds, "--seeded-bug", name, "--stop", "--parts", part)
            print(f"{name}, seed {seed}: {'found' if found else 'NOT FOUND'} after {seconds:.0f} s", flush=True)
            wrong += not found
    for seed in [] if given.no_clean_runs else given.seeds:
        violated, seconds = _violated(seed, min(given.seconds, _CLEAN_SECONDS))
        print(f"no bug, seed {seed}: {'A VIOLATION' if violated else 'nothing'} in {seconds:.0f} s", flush=True)
        wrong += violated
    print(f"{len(given.only)} bugs, {len(given.seeds)} seeds: {wrong} runs had the wrong result")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
