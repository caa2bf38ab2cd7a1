"""binlog's queue: messages put, got and acknowledged in turn while older ones wait in pages, or all at once.

One run gives the rate and the memory: the most that the process uses, above its use with an empty queue.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import binlog
from binlog.queue import Queue
from stress.bench.contestant import BODY_BYTES, Measure
from stress.bench.loops import append_loop
from stress.bench.processes import Loop, Work, run_processes
from stress.bench.sample import MeasureError, Sample

# Four times the queue's own memory, so that each message is paged and read back.
WAITING_BYTES = 64 << 20
# In the usual two seconds five million.
MANY_A_SECOND = 2_500_000
_NAME = "queue"
_PEAK = "peak"
_STATUS = Path("/proc/self/status")


class Figures:
    """Both figures of a run: the first caller runs it, the second one gets the stored result."""

    def __init__(self, run: Callable[[Path, float], dict[str, float]]) -> None:
        self._run = run
        self._found: dict[str, float] = {}

    def rate(self) -> Measure:
        """Return the measure of messages a second that were put, got and acknowledged."""
        return lambda directory, seconds: self._take("rate", directory, seconds)

    def memory(self) -> Measure:
        """Return the measure of MiB."""
        return lambda directory, seconds: self._take("memory", directory, seconds)

    def _take(self, what: str, directory: Path, seconds: float) -> Sample:
        if what not in self._found:
            self._found = self._run(directory, seconds)
        return Sample(self._found.pop(what), None)


def alternating() -> Figures:
    """Put one, get one and acknowledge it; the next opening finds exactly those that waited."""

    def loop(queue: Queue) -> Loop:
        message = os.urandom(BODY_BYTES)
        for _ in range(_waiting_count()):
            queue.put(_fresh(message))
        return append_loop(_turn(queue), message)

    def run(directory: Path, seconds: float) -> dict[str, float]:
        found = _run(directory, seconds, loop)
        with binlog.open_queue(directory / _NAME) as queue:
            if queue.unacknowledged_count != _waiting_count():
                raise MeasureError(f"{queue.unacknowledged_count} messages wait")
        return found

    return Figures(run)


def many() -> Figures:
    """Put many messages, then get and acknowledge all of them."""
    return Figures(lambda directory, seconds: _run(directory, 0, lambda queue: _put_and_take(queue, seconds)))


def many_count(seconds: float) -> int:
    """Return the number of messages of the queue of many."""
    return max(int(MANY_A_SECOND * seconds), 1)


def _run(directory: Path, seconds: float, loop: Callable[[Queue], Loop]) -> dict[str, float]:
    peak = directory / _PEAK

    @contextmanager
    def opener(index: int) -> Iterator[Loop]:
        with binlog.open_queue(directory / _NAME, mode=binlog.Mode.FLUSH) as queue:
            # proc(5): this resets VmHWM to the present size.
            Path("/proc/self/clear_refs").write_text("5")
            empty_kib = _peak_kib()
            works = loop(queue)

            def noted(work: Work) -> int:
                count = works(work)
                peak.write_text(str(_peak_kib() - empty_kib))
                return count

            yield noted

    run = run_processes(opener, processes=1, seconds=seconds, keep_waits=False)
    return {"rate": run.record_count / run.seconds, "memory": int(peak.read_text()) / 1024}


def _put_and_take(queue: Queue, seconds: float) -> Loop:
    def loop(work: Work) -> int:
        message, count = os.urandom(BODY_BYTES), many_count(seconds)
        put, get, ack = queue.put, queue.get, queue.ack
        for _ in range(count):
            put(_fresh(message))
        for _ in range(count):
            ack(get())
        assert queue.unacknowledged_count == 0
        return count

    return loop


def many_flushed() -> Measure:
    """Append as many records of the same size to a log, for comparison."""

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


def _fresh(message: bytes) -> bytes:
    """Return a copy: outside of a benchmark each message is an object of its own, which takes memory."""
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
