"""binlog's queue: messages that are put, got and acknowledged in turn, while older ones wait in pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import binlog
from binlog.paging import Queue
from stress.bench.contestant import BODY_BYTES, Measure
from stress.bench.loops import append_loop
from stress.bench.measuring import Prepare, Prepared
from stress.bench.processes import Loop, Work, run_processes
from stress.bench.sample import Sample

# Four times what the queue has in memory, so that each message goes to a page and is read from there.
WAITING_BYTES = 64 << 20
# In the usual two seconds five million.
MANY_A_SECOND = 2_500_000
_NAME = "queue"
_PEAK = "peak"
_STATUS = Path("/proc/self/status")


def in_turns() -> Prepare:
    """One put, one got and acknowledged; whoever opens the queue then finds those that waited, and no other."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / _NAME
        counted: list[int] = []

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with binlog.open_queue(path, mode=binlog.Mode.FLUSH) as queue:
                yield _loop(queue)

        yield Prepared(opener, None)
        with binlog.open_queue(path) as queue:
            counted.append(queue.unacknowledged_count)
        assert counted == [_waiting_count()], f"{counted} messages wait"

    return prepare


def flushed() -> Prepare:
    """The log's `append` of a record as large, for comparison."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with binlog.Writer(directory / "log", mode=binlog.Mode.FLUSH) as writer:
                yield append_loop(writer.append, os.urandom(BODY_BYTES))

        yield Prepared(opener, None)

    return prepare


def peak_memory() -> Measure:
    """How many MiB the process has in memory at most, above what it has with an empty queue."""

    def measure(directory: Path, seconds: float) -> Sample:
        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with binlog.open_queue(directory / _NAME, mode=binlog.Mode.FLUSH) as queue:
                # proc(5): this resets what VmHWM tells to what is there now.
                Path("/proc/self/clear_refs").write_text("5")
                empty_kib = _peak_kib()
                loop = _loop(queue)

                def noted(work: Work) -> int:
                    count = loop(work)
                    (directory / _PEAK).write_text(str(_peak_kib() - empty_kib))
                    return count

                yield noted

        run_processes(opener, processes=1, seconds=seconds, keep_waits=False)
        return Sample(int((directory / _PEAK).read_text()) / 1024, None)

    return measure


def many_count(seconds: float) -> int:
    """How many messages the queue of many has."""
    return max(int(MANY_A_SECOND * seconds), 1)


class Many:
    """A queue of many messages: all are put, then all got and acknowledged.

    One run gives the rate, of messages for which all of that was done, and the memory: who asks for the second of these
    is told what the last run found.
    """

    def __init__(self) -> None:
        self._found: dict[str, float] = {}

    def rate(self) -> Measure:
        """Messages a second."""
        return lambda directory, seconds: self._take("rate", directory, seconds)

    def memory(self) -> Measure:
        """How many MiB the process has in memory at most, above what it has with the empty queue."""
        return lambda directory, seconds: self._take("memory", directory, seconds)

    def _take(self, what: str, directory: Path, seconds: float) -> Sample:
        if what not in self._found:
            self._found = _run_many(directory, many_count(seconds))
        return Sample(self._found.pop(what), None)


def _run_many(directory: Path, count: int) -> dict[str, float]:
    peak = directory / _PEAK

    @contextmanager
    def opener(index: int) -> Iterator[Loop]:
        with binlog.open_queue(directory / _NAME, mode=binlog.Mode.FLUSH) as queue:
            Path("/proc/self/clear_refs").write_text("5")  # see peak_memory
            empty_kib = _peak_kib()

            def loop(work: Work) -> int:
                _put_and_take(queue, count)
                peak.write_text(str(_peak_kib() - empty_kib))
                return count

            yield loop

    run = run_processes(opener, processes=1, seconds=0, keep_waits=False)
    return {"rate": count / run.seconds, "memory": int(peak.read_text()) / 1024}


def _put_and_take(queue: Queue, count: int) -> None:
    message = os.urandom(BODY_BYTES)
    put, get, ack = queue.put, queue.get, queue.ack
    for _ in range(count):
        put(_fresh(message))
    for _ in range(count):
        ack(get())
    assert queue.unacknowledged_count == 0


def many_flushed() -> Measure:
    """The log's `append` of as many records as large, for comparison."""

    def measure(directory: Path, seconds: float) -> Sample:
        count = many_count(seconds)

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with binlog.Writer(directory / "log", mode=binlog.Mode.FLUSH) as writer:
                record = os.urandom(BODY_BYTES)

                def loop(work: Work) -> int:
                    for _ in range(count):
                        writer.append(record)
                    return count

                yield loop

        run = run_processes(opener, processes=1, seconds=0, keep_waits=False)
        return Sample(count / run.seconds, None)

    return measure


def _loop(queue: Queue) -> Loop:
    message = os.urandom(BODY_BYTES)
    for _ in range(_waiting_count()):
        queue.put(_fresh(message))
    return append_loop(_turn(queue), message)


def _fresh(message: bytes) -> bytes:
    """Another object: as messages are that come from anywhere but a benchmark, and which take memory each."""
    return message[:1] + message[1:]


def _turn(queue: Queue) -> Callable[[bytes], None]:
    put, get, ack = queue.put, queue.get, queue.ack

    def turn(message: bytes) -> None:
        put(_fresh(message))
        ack(get())

    return turn


def _waiting_count() -> int:
    return WAITING_BYTES // BODY_BYTES


def _peak_kib() -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])
