"""Prove the data source on a Spark cluster: python -m stress.cluster [--only WORD], or `make cluster-test`.

It starts a standalone master and two workers on the loopback address, in empty folders and with a clean environment:
Spark, and a Python environment with the wheel of this checkout.  Workers are killed in the middle of jobs.
Exit codes: 0 passed, 1 failed, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from binlog.errors import BinlogError
from stress.cluster.driver import Driver
from stress.cluster.installation import InstallationError, install
from stress.cluster.machines import Cluster, ClusterError
from stress.cluster.proof import Proof, Row

_WORKERS = 2


def _run(folder: Path, only: str) -> list[Row]:
    began = time.monotonic()
    installation = install(folder)
    _say("installed", f"the wheel, into {installation.python.parent.parent.name}/", time.monotonic() - began)
    began = time.monotonic()
    rows = []
    with Cluster(folder, installation) as cluster:
        for _ in range(_WORKERS):
            cluster.add_worker()
        with Driver(folder / "driver", installation, cluster.url) as driver:
            _say("started", "a master, two workers, a driver", time.monotonic() - began)
            for row in Proof(folder, installation, cluster, driver).run(only):
                _say(row.what, "; ".join(["WRONG", *row.wrong]) if row.wrong else row.seen, row.seconds)
                rows.append(row)
    return rows


def _say(what: str, seen: str, seconds: float) -> None:
    print(f"cluster: {what}: {seen} ({seconds:.0f} s)", flush=True)


def _table(rows: list[Row]) -> None:
    width = max(len(row.what) for row in rows)
    print()
    for row in rows:
        print(f"{row.what:{width}}  {'WRONG' if row.wrong else 'right'}  {row.seen}")
        for text in row.wrong:
            print(f"{'':{width}}         {text}")


def main() -> int:
    """Run all cases and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stress.cluster", description="Kill workers of a Spark cluster.")
    parser.add_argument("--only", default="", metavar="WORD", help="run only the cases with WORD in their names")
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="binlog-cluster-", dir="/var/tmp") as folder:
            rows = _run(Path(folder), given.only)
    except (ClusterError, InstallationError, BinlogError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cluster: interrupted; all processes have been stopped", file=sys.stderr)
        return 130
    _table(rows)
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
