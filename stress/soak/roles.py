"""The processes of a soak, each of which runs until it is stopped.

Their pace is one that two cores sustain for hours, so that growth is measured and not speed.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import binlog
from binlog import Background, Mode, Reader, Writer
from binlog.errors import NotFoundError

Stopped = Callable[[], bool]

CUTOVER_BYTES = 4 << 20
KEPT_BYTES = 32 << 20
RECORD_BYTES_MAX = 2000
_REOPENED_SECONDS = 20.0
_PAUSE_SECONDS = 0.1
_BATCH = 20
_SHORT = Background(flush_seconds=0.05, sync_seconds=0.2)


def _append(log: Path, mode: Mode, stopped: Stopped) -> None:
    dice = random.Random(f"{mode.name}")
    while not stopped():
        until = time.monotonic() + _REOPENED_SECONDS
        with Writer(log, mode=mode, cutover_bytes=CUTOVER_BYTES, background=_SHORT) as writer:
            while not stopped() and time.monotonic() < until:
                for _ in range(_BATCH):
                    writer.append(dice.randbytes(dice.randrange(RECORD_BYTES_MAX)))
                writer.append_many([b"%d" % number for number in range(_BATCH)])
                time.sleep(_PAUSE_SECONDS)


def sync(log: Path, stopped: Stopped) -> None:
    """Append durably."""
    _append(log, Mode.SYNC, stopped)


def flush(log: Path, stopped: Stopped) -> None:
    """Append without waiting for the disk."""
    _append(log, Mode.FLUSH, stopped)


def stage(log: Path, stopped: Stopped) -> None:
    """Append to shared memory."""
    _append(log, Mode.STAGE, stopped)


def follow(log: Path, stopped: Stopped) -> None:
    """Read all records as they are appended; start again at the oldest if they were pruned first."""
    while not stopped():
        try:
            with Reader(log) as reader:
                while not stopped():
                    _take(reader.tail(timeout=0.5), stopped)
        except NotFoundError:
            time.sleep(_PAUSE_SECONDS)


def visit(log: Path, stopped: Stopped) -> None:
    """Open, read a little, stat and close, again and again."""
    while not stopped():
        try:
            with Reader(log) as reader:
                for _ in itertools.islice(reader, 500):
                    pass
            binlog.stat(log)
        except NotFoundError:
            pass  # pruned meanwhile
        time.sleep(5 * _PAUSE_SECONDS)


def prune(log: Path, stopped: Stopped) -> None:
    """Keep the log at its size."""
    while not stopped():
        binlog.prune(log, keep_bytes=KEPT_BYTES)
        time.sleep(10 * _PAUSE_SECONDS)


def archive(log: Path, stopped: Stopped) -> None:
    """Compress all but the newest closed files."""
    while not stopped():
        with suppress(NotFoundError):  # pruned meanwhile
            binlog.archive(log, keep_last=2)
        time.sleep(10 * _PAUSE_SECONDS)


def victim(log: Path, stopped: Stopped) -> None:
    """Append in all modes until it is killed."""
    with Writer(log, background=_SHORT) as writer:
        for number in itertools.count():
            if stopped():
                return
            writer.append(b"%d of %d" % (number, os.getpid()), mode=(Mode.SYNC, Mode.FLUSH, Mode.STAGE)[number % 3])
            time.sleep(_PAUSE_SECONDS / 10)


def _take(records: Iterator[binlog.Entry], stopped: Stopped) -> None:
    for _ in records:
        if stopped():
            return


LASTING = (sync, sync, flush, stage, follow, visit, prune, archive)
