"""Run the main job: python -m stress.demo [--events N] [--writers W] [--input FILE...] [--keep DIR].

Exit codes: 0 all is as promised, 1 it is not, 2 wrong usage, 130 Ctrl-C.
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
        description="Several processes append to one log, one is killed and its work taken over, a follower reads "
        "along, Spark extracts everything to Parquet; at the end all of it is compared.",
    )
    parser.add_argument("--events", type=int, metavar="N", help="how many (default: what takes some eight seconds)")
    parser.add_argument("--writers", type=int, default=_WRITERS, metavar="W", help=f"how many (default: {_WRITERS})")
    parser.add_argument(
        "--input", type=Path, nargs="+", metavar="FILE", help="your own files, an event a line, for Python's own"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new or empty directory, for all that is made")
    given = parser.parse_args()
    if given.writers < 2:
        parser.error("--writers is 2 or more")
    if given.events is not None and given.events < stages.SHARE_MIN * given.writers:
        parser.error(f"--events is {stages.SHARE_MIN * given.writers} or more for {given.writers} writers")
    for path in given.input or ():
        if not (path.is_file() and os.access(path, os.R_OK)):
            parser.error(f"--input: {path} is not a file that can be read")
    if given.keep and given.keep.exists() and not (given.keep.is_dir() and not any(given.keep.iterdir())):
        parser.error(f"--keep: {given.keep} is not a new or empty directory")
    return given


def _run(given: argparse.Namespace, place: Place, display: Display) -> bool:
    if given.input:
        items, events = line_items(path.resolve() for path in given.input), given.events
    else:
        items, events = file_items(python_files()), given.events or stages.choose_events(place, display)
    stages.append_and_follow(place, display, items, events, given.writers)
    stages.extract(place, display)
    same = stages.compare(place, display)
    display.say("the demo is done: all is as promised" if same else "the demo is done: it is NOT as promised")
    if given.keep:
        display.say(f"kept: the log in {place.log}, the extract in {place.parquet}")
    return same


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """The directory of this run: one to keep, or one that is removed at the end."""
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    # Where /tmp lies in memory, nothing is ever synced.
    disk = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="binlog-demo-", dir=disk) as directory:
        yield Path(directory)


def main() -> int:
    """See the module."""
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
        print("demo: interrupted; every process that it started has ended", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
