"""The stages of the demo: append and follow, share messages, extract with Spark, compare."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from pathlib import Path

import binlog
from stress.demo import sharing
from stress.demo.children import Children
from stress.demo.compare import Ledger
from stress.demo.director import DemoError, Director, Place
from stress.demo.display import Display
from stress.demo.events import Item, write_work

# The target duration of the first stage; the actual one is known only afterwards.
_APPEND_SECONDS = 8
_EVENTS_MIN, _EVENTS_MAX = 2_000, 16_000
_MEASURE_SECONDS = 0.5

# A writer is killed after a third of its share, and may be some twenty records ahead of the director.
SHARE_MIN = 50


def choose_events(place: Place, display: Display) -> int:
    """Return how many events this machine appends in about eight seconds, each synced before the next."""
    scratch = place.directory / "measured"
    record = bytes(300)
    started = time.monotonic()
    with binlog.Writer(scratch) as writer:
        for count in itertools.count(1):  # noqa: B007
            writer.append(record)
            seconds = time.monotonic() - started
            if seconds > _MEASURE_SECONDS:
                break
    rate = count / seconds
    chosen = int(min(max(_APPEND_SECONDS * rate, _EVENTS_MIN), _EVENTS_MAX)) // 100 * 100
    display.say(f"one writer alone appends {rate:,.0f} records per second here, each synced")
    return chosen


def append_and_follow(place: Place, display: Display, items: Iterable[Item], events: int | None, writers: int) -> int:
    """Append the events with several writers, follow them, and return their number.  Raises: DemoError."""
    count = write_work(place.work, items, events)
    if count < SHARE_MIN * writers:
        raise DemoError(f"{count:,} events are too few for {writers} writers; each needs {SHARE_MIN}")
    display.say(f"{writers} writers append {count:,} events; a follower reads them")
    ledger = Ledger(count, writers)
    started = display.seconds
    with Children() as children:
        Director(place, children, display, ledger).run()
    display.end_bars()
    ledger.save(place.ledger)
    files = binlog.stat(place.log).files
    rate = count / (display.seconds - started)
    sizes = " and ".join(f"{file.tail:,}" for file in files)
    display.say(f"all appended and followed, {rate:,.0f} per second; the log's files have {sizes} bytes")
    return count


def share(place: Place, display: Display) -> bool:
    """Let workers share messages, although some are killed; return whether all is as promised.  Raises: DemoError."""
    sharing.append_messages(place)
    display.say(f"{sharing.WORKERS} workers share {sharing.MESSAGES:,} messages of another log")
    with Children() as children:
        scene = sharing.Sharing(place, children, display)
        scene.run()
    display.end_bars()
    problems = sharing.judge(place, scene.stored)
    display.say("the dead letters, as `binlog group dead ls` prints them:")
    display.show(sharing.list_dead_letters(place))
    if problems:
        display.show("\n".join(["It is NOT as promised:", *problems]))
        return False
    display.show(
        f"{scene.stored.total():,} messages have one result each, and one is a dead letter.\n"
        "Nothing was lost, and nothing was done twice."
    )
    return True


def extract(place: Place, display: Display) -> None:
    """Write the log to Parquet with Spark, and show tables.  Raises: DemoError."""
    with place.spark_errors.open("wb") as errors, Children() as children:
        child = children.start("extract", errors=errors, log=place.log, parquet=place.parquet)
        for _, words in children.messages():
            if words and words[0] == "step":
                display.say("extract: " + " ".join(words[1:]))
                display.bar("Spark", 0, None)
            elif words is not None:
                display.show(" ".join(words))
    display.end_bars()
    if child.process.returncode:
        display.show(_last_lines(place.spark_errors))
        raise DemoError(f"the Spark job exited with code {child.process.returncode}")


def compare(place: Place, display: Display) -> bool:
    """Read everything again and compare it; return whether everything is as promised."""
    display.say("a fresh process reads everything again and compares")
    with Children() as children:
        child = children.start(
            "compare", log=place.log, journal=place.journal, parquet=place.parquet, ledger=place.ledger
        )
        for _, words in children.messages():
            if words is not None:
                display.show(" ".join(words))
    if child.process.returncode not in (0, 1):
        raise DemoError(f"the comparison exited with code {child.process.returncode}")
    return child.process.returncode == 0


def _last_lines(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-40:])
