"""binlog's consumer groups: opening one that has done much, the bytes of its log, and what workers cost others."""

from __future__ import annotations

import atexit
import functools
import itertools
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import binlog
from binlog import ConsumerGroup, Item
from stress.bench.contestant import BODY_BYTES, Measure
from stress.bench.loops import append_loop
from stress.bench.measuring import preparing, waiting
from stress.bench.peers.claim_work import FILLED
from stress.bench.peers.our_group import NAME, WAIT_SECONDS_MAX, fill, join, log_of
from stress.bench.processes import Loop, Work, run_processes
from stress.bench.sample import MeasureError, Sample

DONE_A_SECOND = 500_000
"""Acknowledged messages of a group to open for each second of a measurement; in the usual two seconds a million."""

OUTSTANDING_A_SECOND = 5_000
"""Its messages that wait for a retry; in the usual two seconds 10,000."""

_SMALL_BODY_BYTES = 100
_RETRY_SECONDS = 3600
_ACKS_A_PROCESS = 100_000

_ACKS_A_SECOND = 10_000
_TAKEN_A_SECOND = 2_500
_IDLE_SECONDS = 0.05
_BLOCK_BYTES = 512


# --- a group that has done much


class _Worked:
    """A group with many acknowledged messages and some that wait for a retry; it is removed with the run."""

    def __init__(self, place: Path, done: int, outstanding: int) -> None:
        folder = tempfile.mkdtemp(prefix="bench-group-", dir=place)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self.log = Path(folder) / "log"
        body = os.urandom(_SMALL_BODY_BYTES)
        with binlog.Writer(self.log) as writer:
            for _ in range((done + outstanding) // FILLED + 1):
                writer.append_many([body] * FILLED)
            writer.append(body)
        self._consume(outstanding, lambda item: item.nack(delay=_RETRY_SECONDS))
        # A measurement must not be silent for long.
        for first in range(0, done, _ACKS_A_PROCESS):
            self._consume(min(_ACKS_A_PROCESS, done - first), Item.ack)

    def _consume(self, count: int, end: Callable[[Item], object]) -> None:
        """Take messages in a process of their own: this one must not have a thread."""

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with ConsumerGroup(self.log, NAME, mode=binlog.Mode.FLUSH) as group:
                yield lambda work: _take(group, count, end)

        run_processes(opener, processes=1, seconds=0, keep_waits=False)


_worked = functools.cache(_Worked)


def _worked_in(directory: Path, seconds: float) -> _Worked:
    return _worked(directory.parent, max(int(DONE_A_SECOND * seconds), 1), max(int(OUTSTANDING_A_SECOND * seconds), 1))


def _take(group: ConsumerGroup, count: int, end: Callable[[Item], object]) -> int:
    for _, item in zip(range(count), group.consume(timeout=WAIT_SECONDS_MAX), strict=False):
        end(item)
    return count


def opening() -> Measure:
    """Measure from the call of `ConsumerGroup` until its first message, in microseconds."""

    def measure(directory: Path, seconds: float) -> Sample:
        log = _worked_in(directory, seconds).log
        return waiting(preparing(lambda _: nullcontext(), lambda _: lambda work: _open(work, log)), processes=1)(
            directory, seconds
        )

    return measure


def _open(work: Work, log: Path) -> int:
    assert work.waits is not None
    for number in itertools.count():
        begun = time.monotonic_ns()
        with ConsumerGroup(log, NAME) as group:
            item = group.get(timeout=WAIT_SECONDS_MAX)
            work.waits[number] = time.monotonic_ns() - begun
            assert item is not None
            item.back()
        if work.stop[0]:
            return number + 1
    raise AssertionError


def disk_mebibytes() -> Measure:
    """Measure the space that the files of such a group take."""

    def measure(directory: Path, seconds: float) -> Sample:
        folder = _worked_in(directory, seconds).log / "groups" / NAME
        blocks = sum(path.lstat().st_blocks for path in folder.rglob("*"))
        return Sample(blocks * _BLOCK_BYTES / (1 << 20))

    return measure


def bytes_a_message() -> Measure:
    """Measure how many bytes the group's log grows for each message that is taken and acknowledged."""

    def measure(directory: Path, seconds: float) -> Sample:
        log, count = log_of(directory), max(int(_ACKS_A_SECOND * seconds), FILLED)
        fill(log, count + 1)
        folder = log / "groups" / NAME
        shared = memoryview(mmap.mmap(-1, 8)).cast("q")

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with ConsumerGroup(log, NAME, mode=binlog.Mode.FLUSH) as group:
                join(group)
                before = _end_of(folder)

                def loop(work: Work) -> int:
                    _take(group, count, Item.ack)
                    after = _end_of(folder)
                    if after.number != before.number:
                        raise MeasureError("the group's log was cut over")
                    shared[0] = after.offset - before.offset
                    return count

                yield loop

        run_processes(opener, processes=1, seconds=0, keep_waits=False)
        return Sample(shared[0] / count)

    return measure


def _end_of(log: Path) -> binlog.Ref:
    tail = binlog.stat(log).tail
    assert tail is not None
    return tail


# --- memory

_READER = """
import sys
from binlog import Reader
with Reader(sys.argv[1]) as reader:
    for _ in zip(range(int(sys.argv[2])), reader):
        pass
    print(open("/proc/self/status").read())
"""
_WORKER = """
import sys
from binlog import ConsumerGroup, Item
with ConsumerGroup(sys.argv[1], "group", mode="flush") as group:
    for _, item in zip(range(int(sys.argv[2])), group.consume()):
        item.ack()
    print(open("/proc/self/status").read())
"""


def memory() -> Measure:
    """Measure the memory of a process that is a worker, above that of one that reads the same messages, in MiB."""

    def measure(directory: Path, seconds: float) -> Sample:
        log, count = log_of(directory), max(int(_TAKEN_A_SECOND * seconds), 1)
        fill(log, 2 * count)
        reader_kib, worker_kib = (_resident_kib(program, log, count) for program in (_READER, _WORKER))
        return Sample((worker_kib - reader_kib) / 1024)

    return measure


def _resident_kib(program: str, log: Path, count: int) -> int:
    command = [sys.executable, "-c", program, str(log), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasureError(f"its process ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    return next(int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("VmRSS:"))


# --- what a producer has left


def producing(workers: int) -> Measure:
    """Measure durable appends of one process while this number of workers take and acknowledge the messages."""

    def measure(directory: Path, seconds: float) -> Sample:
        log = log_of(directory)
        binlog.Writer(log).close()
        shared = memoryview(mmap.mmap(-1, 8)).cast("q")

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            if index == 0:
                with binlog.Writer(log) as writer:
                    yield lambda work: _produce(work, writer, shared)
            else:
                with ConsumerGroup(log, NAME) as group:
                    group.get(timeout=0)  # joins
                    yield lambda work: _take_until_stopped(work, group)

        run = run_processes(opener, processes=1 + workers, seconds=seconds, keep_waits=False)
        return Sample(run.record_count / (shared[0] / 1e9))

    return measure


def _produce(work: Work, writer: binlog.Writer[binlog.Ref], shared: memoryview) -> int:
    """Append, and write the duration in nanoseconds to shared[0]; the workers end later."""
    begun = time.monotonic_ns()
    count = append_loop(writer.append, os.urandom(BODY_BYTES))(work)
    shared[0] = time.monotonic_ns() - begun
    return count


def _take_until_stopped(work: Work, group: ConsumerGroup) -> int:
    while True:
        for item in group.consume(timeout=_IDLE_SECONDS):
            item.ack()
            if work.stop[0]:
                return 0
        if work.stop[0]:
            return 0
