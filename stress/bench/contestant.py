"""The contestants, and the rows in which they are measured."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stress.bench.sample import Sample

OURS = "binlog"
FLOOR = "floor: "  # the prefix of a floor's name

# The size of a record in every row; a log adds its own few bytes to each.
RECORD_BYTES = 500
FRAMED_BYTES = 504

# The body of a message in the rows of the commit log, and its whole size there.
BODY_BYTES = 1024
MESSAGE_BYTES = 1149

# How long a waiting process has slept before it is woken.
IDLE_MS = 20

# Measure(directory, seconds): in an empty directory, for about that long.
Measure = Callable[[Path, float], Sample]


class Unit(enum.Enum):
    """The unit of a row's figures."""

    RECORDS = "records/s"
    MEGABYTES = "MB/s"
    SECONDS = "s"
    MICROSECONDS = "µs"
    MEBIBYTES = "MiB"
    BYTES = "bytes"
    PROCESSES = "processes"
    WAKES = "wake-ups/s"


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One way to do a row's work.

    how: one sentence for the document.
    missing: the reason why it cannot be measured on this machine, or None.
    """

    name: str
    how: str
    measure: Measure
    missing: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind of work, done by each contestant in turn.  Ratios are relative to the first one.

    seconds_factor: a measurement takes this many times the given duration.
    disk_bytes: the most that one second may write to the disk.
    """

    name: str
    title: str
    unit: Unit
    contestants: tuple[Contestant, ...]
    seconds_factor: float = 1
    disk_bytes: int = 0
