"""Processes that are prepared, start at once, work until they are stopped, and count.

They are forked, so each has its data in memory.  They share one mapping: the stop flag, and for each process when
it began and ended, its count, and the duration of each call.

prctl(2): PR_SET_PDEATHSIG ends a process with the thread that started it, so that nothing continues if the measuring
process is killed.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from cffi import FFI

from stress.bench.sample import MeasureError, Waits

# No disk syncs more often for one process, and a page that is never written takes no memory.
_WAITS_A_SECOND_MAX = 1 << 19

_RESULT_BYTES = 64  # a cache line each, the first for the flag
_PAGE_BYTES = 4096

# Longer than preparing or ending takes on any machine.
_SILENCE_SECONDS_MAX = 120
_PR_SET_PDEATHSIG = 1

# The measuring process handles these by raising KeyboardInterrupt.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ffi = FFI()
_ffi.cdef("int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);")
_libc: Any = _ffi.dlopen(None)


@dataclass(frozen=True)
class Work:
    """The input of a process's loop.

    stop: one number; end if it is not 0.
    waits: room for the nanoseconds of each call, or None if they are not kept.
    """

    index: int
    stop: memoryview
    waits: memoryview | None


# Works until it is stopped, and returns the number of records that it wrote.
Loop = Callable[[Work], int]

# Prepares process `index`.  Its work at the end is not measured.
Opener = Callable[[int], AbstractContextManager[Loop]]


@dataclass(frozen=True)
class Run:
    """The totals of all processes.

    seconds: from the first one's beginning to the last one's end.  cpu_seconds: of all their threads meanwhile.
    """

    record_count: int
    seconds: float
    waits: Waits | None
    cpu_seconds: float


def die_with_parent(parent: int) -> None:
    """End this process with the one that started it, even if that has ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def run_processes(opener: Opener, *, processes: int, seconds: float, keep_waits: bool) -> Run:
    """Let processes work for `seconds`.  Raises: MeasureError, with the error of the first one that failed."""
    with _Board(processes, seconds, keep_waits) as board:
        go, theirs = os.pipe()
        children: list[_Child] = []
        try:
            with _held_signals():
                children.extend(_Child(opener, board, index, go) for index in range(processes))
            for child in children:
                child.wait_ready()
            os.write(theirs, bytes(processes))
            time.sleep(seconds)
            board.stop[0] = 1
            for child in children:
                child.join()
        finally:
            for child in children:
                child.kill()
            os.close(go)
            os.close(theirs)
        return board.result()


@contextmanager
def _held_signals() -> Iterator[None]:
    """Block the signals that would end this process until its block is done.

    Python ignores exceptions raised in a hook that runs at a fork, and one raised between the fork and the note of the
    child would leave a process that is never ended.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


class _Board:
    """The shared mapping."""

    def __init__(self, processes: int, seconds: float, keep_waits: bool) -> None:
        self._processes = processes
        self._waits_count = int(_WAITS_A_SECOND_MAX * (seconds + 1)) if keep_waits else 0
        head = (processes + 1) * _RESULT_BYTES
        self._head = (head + _PAGE_BYTES - 1) // _PAGE_BYTES * _PAGE_BYTES
        self._memory = mmap.mmap(-1, self._head + processes * self._waits_count * 8)
        self._view = memoryview(self._memory)
        self.stop = self._view[:4].cast("i")

    def waits(self, index: int) -> memoryview | None:
        """Return the room for the waits of process `index`."""
        first = self._head + index * self._waits_count * 8
        return self._view[first : first + self._waits_count * 8].cast("Q") if self._waits_count else None

    def results(self, index: int) -> memoryview:
        """Return the room for the beginning and end of process `index`, in ns, its count, and its CPU time in ns."""
        first = (index + 1) * _RESULT_BYTES
        return self._view[first : first + 4 * 8].cast("q")

    def result(self) -> Run:
        """Return the totals of all processes."""
        results = [tuple(self.results(index)) for index in range(self._processes)]
        begins, ends, counts, cpu_ns = zip(*results, strict=True)
        if not sum(counts):
            raise MeasureError("no record was written in time")
        seconds = (max(ends) - min(begins)) / 1e9
        return Run(sum(counts), seconds, self._all_waits(list(counts)), sum(cpu_ns) / 1e9)

    def _all_waits(self, counts: list[int]) -> Waits | None:
        run: list[int] = []
        for index, count in enumerate(counts):
            waits = self.waits(index)
            if waits is None:
                return None
            run.extend(waits[:count])
            waits.release()
        return Waits.of(run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        # Not closed: views of it may still exist, and it ends with the last of them.
        self.stop.release()
        self._view.release()


class _Child:
    """One of the processes."""

    def __init__(self, opener: Opener, board: _Board, index: int, go: int) -> None:
        self._pipe, theirs = os.pipe()
        starter = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            die_with_parent(starter)
            _work(opener, board, index, go, theirs)
        os.close(theirs)

    def wait_ready(self) -> None:
        """Wait until it is prepared.  Raises: MeasureError, if that failed."""
        said = self._read(1)
        if said != b"\0":
            raise MeasureError((said + self._read(1 << 16)).decode(errors="replace") or "a process died")

    def join(self) -> None:
        """Wait until it has ended.  Raises: MeasureError, with its error."""
        said = self._read(1 << 16)
        pid, self._pid = self._pid, 0
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            raise MeasureError(said.decode(errors="replace") or f"a process ended with {status}")

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _read(self, count: int) -> bytes:
        if not select.select([self._pipe], [], [], _SILENCE_SECONDS_MAX)[0]:
            raise MeasureError(f"a process was silent for {_SILENCE_SECONDS_MAX} s")
        return os.read(self._pipe, count)


def _work(opener: Opener, board: _Board, index: int, go: int, parent: int) -> NoReturn:
    status = 1
    try:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        with opener(index) as loop:
            work = Work(index, board.stop, board.waits(index))
            results = board.results(index)
            os.write(parent, b"\0")
            if os.read(go, 1):
                results[0], cpu_ns = time.monotonic_ns(), time.process_time_ns()
                results[2] = loop(work)
                results[1], results[3] = time.monotonic_ns(), time.process_time_ns() - cpu_ns
        status = 0
    except BaseException as error:  # noqa: BLE001 - the table reports any error
        os.write(parent, f"{type(error).__name__}: {error}"[:1000].encode())
    finally:
        # Not sys.exit: exit handlers belong to the measuring process.
        os._exit(status)
