"""`python -m stress.paging`: a queue whose process is killed at random moments; see judge.py for what must be true."""

from __future__ import annotations

import argparse
import faulthandler
import shutil
import sys
import tempfile
import time
from pathlib import Path

from stress.paging.rounds import PRODUCERS, Round

_LIVES_A_ROUND = 8


def main() -> int:
    """0 where all held; else the queue and the marks are kept."""
    parser = argparse.ArgumentParser(prog="python -m stress.paging", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for so long (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: drawn")
    options = parser.parse_args()
    faulthandler.enable()
    print(f"paging: seed {options.seed}, {options.seconds:.0f} s", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="binlog-paging-", dir="/var/tmp"))
    end = time.monotonic() + options.seconds
    rounds = kills = marks = 0
    while time.monotonic() < end:
        producers = PRODUCERS[rounds % len(PRODUCERS)]
        one = Round(folder, f"{options.seed}/{rounds}", producers)
        wrong = one.run(_LIVES_A_ROUND)
        marks += one.mark_count
        rounds, kills = rounds + 1, kills + one.kills
        if wrong:
            print(f"paging: round {rounds}, {producers} producers: {len(wrong)} things are wrong; kept: {folder}")
            print("\n".join(wrong[:20]))
            return 1
    shutil.rmtree(folder)
    print(f"paging: {rounds} rounds, {kills} kills, {marks:,} marks, nothing wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
