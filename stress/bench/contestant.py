"""Who is measured, and the rows in which they meet."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stress.bench.sample import Sample

OURS = "binlog"
FLOOR = "floor: "  # what the name of one begins with

# What a record is in every row; a log adds its own few bytes to each.
RECORD_BYTES = 500
FRAMED_BYTES = 504

# The body of a message in the rows of the commit log, and all of it there.
BODY_BYTES = 1024
MESSAGE_BYTES = 1149

# How long who waits has slept before it is woken.
IDLE_MS = 20

# Measure(directory, seconds): in an empty directory of its own, for about so long.
Measure = Callable[[Path, float], Sample]


class Unit(enum.Enum):
    """What the figures of a row count."""

    RECORDS = "records/s"
    MEGABYTES = "MB/s"
    SECONDS = "s"
    MICROSECONDS = "µs"
    MEBIBYTES = "MiB"


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One of those who are measured in a row.

    how: one sentence for the document.
    missing: why it cannot be measured on this machine, or None.
    """

    name: str
    how: str
    measure: Measure
    missing: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Row:
    """The same work, done by each contestant in turn.  Ratios are against the first of them.

    seconds_factor: a measurement takes this many times what was asked for.
    disk_bytes: what a second of it may put on the disk.
    """

    name: str
    title: str
    unit: Unit
    contestants: tuple[Contestant, ...]
    seconds_factor: float = 1
    disk_bytes: int = 0
