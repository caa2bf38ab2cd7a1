"""`python -m stress.pagestore`: see curve.py."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from stress.pagestore.curve import curve
from stress.pagestore.opening import forget_all, kill_with_full_log, seconds_to_open


def main() -> int:
    """Print what was measured; nothing is asserted."""
    parser = argparse.ArgumentParser(prog="python -m stress.pagestore", description=__doc__)
    parser.add_argument(
        "--messages", type=int, default=1_000_000, help="of the queue (%(default)s); 2 KiB of disk each"
    )
    parser.add_argument("--directory", type=Path, help="where there is space for it (default: for temporary files)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory, prefix="binlog-pagestore-") as folder:
        print("     messages there   us a message   pages read a message", flush=True)
        for part in curve(Path(folder) / "long", given.messages):
            print(f"{part.what} {part.length:15,} {part.micros:14.1f} {part.reads:22.3f}", flush=True)
        for how in ("", ", from the disk"):
            path = Path(folder) / f"killed{how}"
            count = kill_with_full_log(path)
            if how:
                forget_all(path)
            seconds = seconds_to_open(path, count)
            print(f"opening after a kill with a full log of {count:,} messages of 1 KiB{how}: {seconds:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
