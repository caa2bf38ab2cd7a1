"""A sleeping reader of binlog, and a writer in another process that wakes it.

Both write their times to shared memory: for each record the time when `append` was called, when it returned, and when
the reader had the record, all by the clock that both share.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import binlog
from stress.bench.contestant import IDLE_MS, RECORD_BYTES, Measure
from stress.bench.processes import Loop, Work, run_processes
from stress.bench.sample import MeasureError, Sample, Waits

_NOTE_BYTES = 3 * 8
_SILENCE_SECONDS_MAX = 10.0

# Opens a log to follow it: yields an iterator over its records, which waits for more.
Follow = Callable[[Path], AbstractContextManager[Iterator[object]]]


class _Notes:
    """The shared memory."""

    def __init__(self, seconds: float) -> None:
        # One more is appended at the end, so that the reader ends too.
        self._numbers = memoryview(mmap.mmap(-1, _NOTE_BYTES * (int(seconds * 1000 / IDLE_MS) + 2))).cast("q")
        count = len(self._numbers) // 3
        self.called, self.returned, self.seen = (self._numbers[i * count : (i + 1) * count] for i in range(3))

    def waits(self, count: int, *, since_return: bool) -> Waits:
        """Return how long the reader took for each of the first `count` records."""
        since = self.returned if since_return else self.called
        return Waits.of([seen - begin for seen, begin in zip(self.seen[:count], since, strict=False)])


@contextmanager
def by_tail(log: Path) -> Iterator[Iterator[object]]:
    """Follow the log in the usual way."""
    with binlog.Reader(log) as reader:
        yield reader.tail(timeout=_SILENCE_SECONDS_MAX)


@contextmanager
def by_wait(log: Path) -> Iterator[Iterator[object]]:
    """Follow the log as a reader that has other work in between."""
    with binlog.Reader(log) as reader:
        yield _wait_again_and_again(reader)


def _wait_again_and_again(reader: binlog.Reader) -> Iterator[object]:
    while reader.wait(_SILENCE_SECONDS_MAX):
        yield from reader


def measure(mode: binlog.Mode, *, since_return: bool, follow: Follow = by_tail) -> Measure:
    """Measure from the return of `append`, or from its call, until a follower has the record."""

    def measured(directory: Path, seconds: float) -> Sample:
        notes = _Notes(seconds)
        binlog.Writer(directory / "log").close()

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            if index == 0:
                with binlog.Writer(directory / "log", mode=mode) as writer:
                    yield lambda work: _ring(work, writer, notes)
            else:
                with follow(directory / "log") as entries:
                    yield lambda work: _wait(work, entries, notes)

        run = run_processes(opener, processes=2, seconds=seconds, keep_waits=False)
        waits = notes.waits(run.record_count, since_return=since_return)
        return Sample(waits.p50_ns / 1000, waits)

    return measured


def _ring(work: Work, writer: binlog.Writer[Any], notes: _Notes) -> int:
    record = os.urandom(RECORD_BYTES)
    for number in range(len(notes.called)):
        time.sleep(IDLE_MS / 1000)  # the reader must sleep: this is the work, and not a wait
        last = work.stop[0]
        notes.called[number] = time.monotonic_ns()
        writer.append(record)
        notes.returned[number] = time.monotonic_ns()
        if last:
            break
    return 0


def _wait(work: Work, entries: Iterator[object], notes: _Notes) -> int:
    for number, _ in enumerate(entries):
        notes.seen[number] = time.monotonic_ns()
        if work.stop[0]:
            return number + 1
    raise MeasureError(f"the reader received nothing for {_SILENCE_SECONDS_MAX:g} s")
