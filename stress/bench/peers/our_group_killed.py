"""binlog's consumer groups after a death: how soon another worker has the message that a killed one had."""

from __future__ import annotations

import itertools
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import binlog
from binlog import ConsumerGroup
from stress.bench.contestant import BODY_BYTES, IDLE_MS, Measure
from stress.bench.peers.our_group import NAME, WAIT_SECONDS_MAX, log_of
from stress.bench.processes import Loop, Work, die_with_parent, run_processes
from stress.bench.sample import MeasureError, Sample

_SILENCE_SECONDS_MAX = 10.0
_TAKE, _LEAVE = b"t", b"l"


class _Pipes:
    """Through which the killing process asks a worker to take a message, and learns when the worker had one."""

    def __init__(self) -> None:
        self._asked, self._asking = os.pipe()
        self._answers, self._answering = os.pipe()

    def ask(self, request: bytes) -> None:
        """Send a request to the worker."""
        os.write(self._asking, request)

    def requests(self) -> Iterator[bytes]:
        """Yield each request; blocks."""
        while request := os.read(self._asked, 1):
            yield request

    def answer(self, time_ns: int) -> None:
        """Send a time to the killing process."""
        os.write(self._answering, time_ns.to_bytes(8))

    def answered(self) -> int:
        """Return the time that the worker sends; blocks."""
        return int.from_bytes(_read(self._answers, 8))

    def close(self) -> None:
        """Close both pipes."""
        for fd in (self._asked, self._asking, self._answers, self._answering):
            os.close(fd)


def _read(fd: int, count: int) -> bytes:
    if not select.select([fd], [], [], _SILENCE_SECONDS_MAX)[0]:
        raise MeasureError(f"a worker was silent for {_SILENCE_SECONDS_MAX:g} s")
    return os.read(fd, count)


def killed(*, since_freed: bool) -> Measure:
    """Measure from SIGKILL of a worker that has a message, until another one has it.

    since_freed: from the moment at which the killing process notices that the kernel has closed the dead one's seat.
    """

    def measure(directory: Path, seconds: float) -> Sample:
        log, pipes = log_of(directory), _Pipes()
        binlog.Writer(log).close()

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            if index == 0:
                yield lambda work: _kill_workers(work, log, pipes, since_freed=since_freed)
            else:
                with ConsumerGroup(log, NAME) as group:
                    group.get(timeout=0)  # joins
                    yield lambda work: _take_when_asked(group, pipes)

        try:
            run = run_processes(opener, processes=2, seconds=seconds, keep_waits=True)
        finally:
            pipes.close()
        assert run.waits is not None
        return Sample(run.waits.p50_ns / 1000, run.waits)

    return measure


def _kill_workers(work: Work, log: Path, pipes: _Pipes, *, since_freed: bool) -> int:
    assert work.waits is not None
    for number in itertools.count():
        victim = _start_victim(log)
        pipes.ask(_TAKE)
        time.sleep(IDLE_MS / 1000)  # the other worker must sleep: this is the work, and not a wait
        with _seats(log) as seats:
            begun = time.monotonic_ns()
            os.kill(victim, signal.SIGKILL)
            if since_freed:
                begun = _freed(seats)
            work.waits[number] = max(pipes.answered() - begun, 0)
        os.waitpid(victim, 0)
        if work.stop[0]:
            pipes.ask(_LEAVE)
            return number + 1
    raise AssertionError


def _take_when_asked(group: ConsumerGroup, pipes: _Pipes) -> int:
    for request in pipes.requests():
        if request == _LEAVE:
            break
        item = group.get(timeout=WAIT_SECONDS_MAX)
        now = time.monotonic_ns()
        assert item is not None
        assert item.delivery > 1
        pipes.answer(now)
        item.ack()
    return 0


def _start_victim(log: Path) -> int:
    """Start a worker that appends a message and takes it; return its process id when it has the message."""
    ours, theirs = os.pipe()
    starter, pid = os.getpid(), os.fork()
    if pid == 0:
        die_with_parent(starter)
        _take_and_sleep(log, theirs)
    os.close(theirs)
    try:
        said = _read(ours, 1000)
    finally:
        os.close(ours)
    if said != b"\0":
        raise MeasureError(f"the worker to kill failed: {said.decode(errors='replace')}")
    return pid


def _take_and_sleep(log: Path, parent: int) -> NoReturn:
    try:
        with binlog.Writer(log) as writer:
            writer.append(os.urandom(BODY_BYTES))
        with ConsumerGroup(log, NAME) as group:
            item = group.get(timeout=WAIT_SECONDS_MAX)
            assert item is not None
            os.write(parent, b"\0")
            signal.pause()
    except BaseException as error:  # noqa: BLE001 - the forked child must not continue as if it were its parent
        os.write(parent, f"{type(error).__name__}: {error}"[:900].encode())
    finally:
        os._exit(1)


@contextmanager
def _seats(log: Path) -> Iterator[select.poll]:
    """Open the FIFOs of all seats, to learn which one the kernel closes."""
    seats = select.poll()
    with ExitStack() as stack:
        for fifo in (log / "groups" / NAME / "members").iterdir():
            fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            seats.register(fd, 0)  # POLLHUP is always reported
        yield seats


def _freed(seats: select.poll) -> int:
    """Return when a seat is closed; blocks."""
    if not seats.poll(_SILENCE_SECONDS_MAX * 1000):
        raise MeasureError("no seat of a killed worker was closed")
    return time.monotonic_ns()
