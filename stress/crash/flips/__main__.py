"""Flip every bit: python -m stress.crash.flips [--quick] [--only TEXT] [--step N] [--processes P], or `make flips`.

Exit codes: 0 no violation, 1 a violation, 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from stress.crash.flips.logs import make_intact_logs
from stress.crash.flips.sweep import all_flips, quick_flips, scratch_folder, sweep

_SHOWN_MAX = 20


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m stress.crash.flips", description="Flip every bit.")
    parser.add_argument("--only", default="", metavar="TEXT", help="only bits whose name has this text")
    parser.add_argument("--quick", action="store_true", help="one bit of each byte, for one log of each kind")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="only every Nth bit")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="start at the Nth bit, from 0")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="save all results in a file, as JSON")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="P", help="default: all cores")
    given = parser.parse_args()
    if given.processes < 1 or given.step < 1 or given.first < 0:
        parser.error("--processes and --step are 1 or more, --first 0 or more")
    begun = time.monotonic()
    with scratch_folder() as scratch:
        intact_logs = list(make_intact_logs(Path(scratch)))
        flips = [flip for flip in (quick_flips if given.quick else all_flips)(intact_logs) if given.only in str(flip)][
            given.first :: given.step
        ]
        if not flips:
            parser.error(f"--only: no bit has {given.only!r} in its name")
        print(f"flips: {len(flips):,} bits of {len(intact_logs)} logs, {given.processes} processes", flush=True)
        found = sweep(flips, Path(scratch), given.processes)
    if given.keep:
        given.keep.write_text(json.dumps(vars(found), indent=1))
    for name, count in found.counts.items():
        print(f"  {name:32} {count:>7,} bits {found.seconds[name]:>8.1f} s CPU")
    for flip, wrong in list(found.wrong.items())[:_SHOWN_MAX]:
        print(f"flips: WRONG: {flip}\n  " + "\n  ".join(wrong))
        print(f"  again: .venv/bin/python -m stress.crash.flips --only '{flip}'")
    print(
        f"flips: {len(found.wrong):,} of {sum(found.counts.values()):,} bits wrong, {time.monotonic() - begun:.0f} s, "
        f"{sum(found.seconds.values()):.0f} s CPU; a worker used {found.start_bytes >> 20} MiB at first, "
        f"{found.peak_bytes >> 20} MiB at most"
    )
    return 1 if found.wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("flips: interrupted", file=sys.stderr)
        sys.exit(130)
