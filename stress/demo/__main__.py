"""Run the demo: python -m stress.demo [--events N] [--writers W] [--input FILE...] [--keep DIR].

Exit codes: 0 passed, 1 failed, 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binlog.errors import BinlogError
from stress.demo import stages
from stress.demo.director import DemoError, Place
from stress.demo.display import Display
from stress.demo.events import file_items, line_items, python_files

_WRITERS = 4


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m stress.demo",
        description="Several processes append to one log, one is killed and its work is taken over, a follower reads "
        "the log, four workers share messages, and Spark extracts the log to Parquet. All is compared at the end.",
    )
    parser.add_argument("--events", type=int, metavar="N", help="number (default: about eight seconds' worth)")
    parser.add_argument("--writers", type=int, default=_WRITERS, metavar="W", help=f"number (default: {_WRITERS})")
    parser.add_argument(
        "--input", type=Path, nargs="+", metavar="FILE", help="your own files, one event per line, instead of Python's"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new or empty directory in which to keep the result")
    given = parser.parse_args()
    if given.writers < 2:
        parser.error("--writers must be at least 2")
    if given.events is not None and given.events < stages.SHARE_MIN * given.writers:
        parser.error(f"--events must be at least {stages.SHARE_MIN * given.writers} for {given.writers} writers")
    for path in given.input or ():
        if not (path.is_file() and os.access(path, os.R_OK)):
            parser.error(f"--input: {path} is not a readable file")
    if given.keep and given.keep.exists() and not (given.keep.is_dir() and not any(given.keep.iterdir())):
        parser.error(f"--keep: {given.keep} is not a new or empty directory")
    return given


def _run(given: argparse.Namespace, place: Place, display: Display) -> bool:
    if given.input:
        items, events = line_items(path.resolve() for path in given.input), given.events
    else:
        items, events = file_items(python_files()), given.events or stages.choose_events(place, display)
    stages.append_and_follow(place, display, items, events, given.writers)
    shared = stages.share(place, display)
    stages.extract(place, display)
    same = stages.compare(place, display) and shared
    display.say("the demo has passed: everything is as promised" if same else "the demo has FAILED")
    if given.keep:
        display.say(f"kept: the log in {place.log}, the messages in {place.messages}, the extract in {place.parquet}")
    return same


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """Yield the directory of this run: one to keep, or one that is removed at the end."""
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    # Not /tmp, which may be in memory, where a sync does nothing.
    disk = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="binlog-demo-", dir=disk) as directory:
        yield Path(directory)


def main() -> int:
    """Run the demo and return the exit code."""
    given = _arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with _directory(given.keep) as directory, Display() as display:
            return 0 if _run(given, Place(directory), display) else 1
    except (DemoError, BinlogError, TimeoutError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; all processes have been stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
