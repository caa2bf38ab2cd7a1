"""binlog's consumer groups, idle: how soon a worker has a message after a sleep, and how many workers wake for it."""

from __future__ import annotations

import itertools
import mmap
import os
import re
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import binlog
from binlog import ConsumerGroup, Message
from stress.bench.contestant import BODY_BYTES, IDLE_MS, Measure
from stress.bench.measuring import preparing, waiting
from stress.bench.peers import ours_waking
from stress.bench.peers.claim_work import FILLED
from stress.bench.peers.our_group import NAME, WAIT_SECONDS_MAX, log_of
from stress.bench.processes import Loop, Work, run_processes
from stress.bench.sample import MeasureError, Sample

DELAYED_A_SECOND = 50_000
"""Messages that are due in an hour for each second of a measurement; in the usual two seconds 100,000."""

DUE_EVERY_MS = 5

_SILENCE_SECONDS_MAX = 10.0
_HOUR_NS = 3600 * 10**9
_BEFORE_FIRST_NS = 50_000_000
_DUE_BYTES = 8
_OUTSTANDING_MAX = 1 << 20
# A worker finds more at a time.
_NAMED_AT_ONCE = 256

_END = b"end"


# --- after a sleep


def woken(*, since_return: bool) -> Measure:
    """Measure from the call or the return of a durable append until a sleeping worker has the message."""
    return ours_waking.measure(binlog.Mode.SYNC, since_return=since_return, follow=_taking)


@contextmanager
def _taking(log: Path) -> Iterator[Iterator[object]]:
    with ConsumerGroup(log, NAME) as group:
        yield _take_all(group)


def _take_all(group: ConsumerGroup) -> Iterator[object]:
    while (item := group.get(timeout=_SILENCE_SECONDS_MAX)) is not None:
        yield item
        item.ack()


# --- many workers


def woken_workers(workers: int) -> Measure:
    """Measure how many sleeping workers wake for one message: the median of all messages."""

    def measure(directory: Path, seconds: float) -> Sample:
        log = log_of(directory)
        binlog.Writer(log).close()
        pids = memoryview(mmap.mmap(-1, 8 * workers)).cast("q")
        acked = os.eventfd(0, os.EFD_CLOEXEC)

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            if index == 0:
                yield lambda work: _count_woken(work, log, pids, acked)
            else:
                pids[index - 1] = os.getpid()
                with ConsumerGroup(log, NAME) as group:
                    group.get(timeout=0)  # joins
                    yield lambda work: _take_to_the_end(group, acked)

        try:
            run = run_processes(opener, processes=1 + workers, seconds=seconds, keep_waits=True)
        finally:
            os.close(acked)
        assert run.waits is not None
        return Sample(run.waits.p50_ns)

    return measure


def _count_woken(work: Work, log: Path, pids: memoryview, acked: int) -> int:
    assert work.waits is not None
    message = os.urandom(BODY_BYTES)
    with binlog.Writer(log) as writer:
        for number in itertools.count():
            time.sleep(IDLE_MS / 1000)
            before = [_sleeps(Path(f"/proc/{pid}"), str(pid)) for pid in pids]
            writer.append(message)
            _await_ack(acked)
            time.sleep(IDLE_MS / 1000)
            after = [_sleeps(Path(f"/proc/{pid}"), str(pid)) for pid in pids]
            work.waits[number] = sum(map(int.__ne__, before, after))
            if work.stop[0]:
                writer.append_many([_END] * len(pids))
                return number + 1
    raise AssertionError


def _await_ack(acked: int) -> None:
    if not select.select([acked], [], [], _SILENCE_SECONDS_MAX)[0]:
        raise MeasureError(f"no worker took a message for {_SILENCE_SECONDS_MAX:g} s")
    os.eventfd_read(acked)


def _take_to_the_end(group: ConsumerGroup, acked: int) -> int:
    """Take messages until one says that it is the last one for this worker."""
    while (item := group.get(timeout=WAIT_SECONDS_MAX)) is not None:
        item.ack()
        if item.data == _END:
            break
        os.eventfd_write(acked, 1)
    return 0


def _sleeps(process: Path, thread: str = "*") -> int:
    """Return how often threads of a process went to sleep: once more each time that one of them woke."""
    count = 0
    for status in (process / "task").glob(f"{thread}/status"):
        found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status.read_text(), re.MULTILINE)
        assert found is not None
        count += int(found[1])
    return count


# --- delayed messages


def lateness() -> Measure:
    """Measure how long after its due time a worker has a message, while many others are due much later."""

    def measure(directory: Path, seconds: float) -> Sample:
        count = max(int(seconds * 1000) // DUE_EVERY_MS, 1)
        prepare = preparing(
            lambda place: _with_delayed(place, _delayed_count(seconds)),
            lambda group: lambda work: _take_due(work, group, count),
            make=lambda place: _fill_delayed(place, _delayed_count(seconds)),
        )
        return waiting(prepare, processes=1)(directory, seconds)

    return measure


def idle_wakes(delayed_a_second: int) -> Measure:
    """Measure how often the threads of an idle worker wake in a second while many messages are delayed."""

    def measure(directory: Path, seconds: float) -> Sample:
        count = _delayed_count(seconds, delayed_a_second)
        _fill_delayed(directory, count)
        shared = memoryview(mmap.mmap(-1, 3 * 8)).cast("q")
        acked = os.eventfd(0, os.EFD_CLOEXEC)

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            if index == 0:
                yield lambda work: _count_sleeps(log_of(directory), shared, seconds)
            else:
                shared[0] = os.getpid()
                with _with_delayed(directory, count) as group:
                    yield lambda work: _take_to_the_end(group, acked)

        try:
            run_processes(opener, processes=2, seconds=seconds, keep_waits=False)
        finally:
            os.close(acked)
        return Sample(shared[1] / (shared[2] / 1e9))

    return measure


def _count_sleeps(log: Path, shared: memoryview, seconds: float) -> int:
    """Write the number, and the time in which they were counted, to shared[1] and shared[2]."""
    time.sleep(IDLE_MS / 1000)
    process = Path(f"/proc/{shared[0]}")
    before, begun = _sleeps(process), time.monotonic_ns()
    time.sleep(seconds)
    shared[1], shared[2] = _sleeps(process) - before, time.monotonic_ns() - begun
    with binlog.Writer(log) as writer:
        writer.append(_END)
    return 1


def _delayed_count(seconds: float, a_second: int = DELAYED_A_SECOND) -> int:
    return max(int(a_second * seconds), 1)


def _fill_delayed(directory: Path, count: int) -> None:
    message = Message(body=os.urandom(BODY_BYTES), due_ns=time.time_ns() + _HOUR_NS).pack()
    with binlog.Writer(log_of(directory)) as writer:
        for first in range(0, count, FILLED):
            writer.append_many([message] * min(FILLED, count - first))


@contextmanager
def _with_delayed(directory: Path, count: int) -> Iterator[ConsumerGroup]:
    """Open a group that knows all of the delayed messages."""
    mode = binlog.Mode.FLUSH
    with ConsumerGroup(log_of(directory), NAME, outstanding_max=_OUTSTANDING_MAX, mode=mode) as group:
        for _ in range(count // _NAMED_AT_ONCE + 1):
            group.get(timeout=0)
        yield group


def _take_due(work: Work, group: ConsumerGroup, count: int) -> int:
    assert work.waits is not None
    first_ns = time.time_ns() + _BEFORE_FIRST_NS
    dues = [first_ns + number * DUE_EVERY_MS * 1_000_000 for number in range(count)]
    with binlog.Writer(group.path) as writer:
        writer.append_many([Message(body=due.to_bytes(_DUE_BYTES), due_ns=due).pack() for due in dues])
    for number in range(count):
        item = group.get(timeout=WAIT_SECONDS_MAX)
        now = time.time_ns()
        assert item is not None
        work.waits[number] = max(now - int.from_bytes(item.data), 0)
        item.ack()
    return count
