"""Processes that are made ready, begin at once, work until they are told to stop, and count.

They are forked, so each finds what it needs in memory already.  What they tell each other goes through one shared
mapping: the flag that stops them, and of each when it began and ended, its count, and how long each record took.

prctl(2): PR_SET_PDEATHSIG ends a process with the thread that started it, so that nothing goes on where the
measuring process is killed.
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

# No disk syncs that often for one process, and a page that nobody writes to takes no memory.
_WAITS_A_SECOND_MAX = 1 << 19

_RESULT_BYTES = 64  # a cache line each, the first for the flag
_PAGE_BYTES = 4096

# Longer than making ready or ending takes, whatever the machine.
_SILENCE_SECONDS_MAX = 120
_PR_SET_PDEATHSIG = 1

# What whoever measures handles by raising KeyboardInterrupt.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ffi = FFI()
_ffi.cdef("int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);")
_libc: Any = _ffi.dlopen(None)


@dataclass(frozen=True)
class Work:
    """What a process works with.

    stop: one number; not 0: end.
    waits: room for the nanoseconds that each record takes, or None where they are not asked for.
    """

    index: int
    stop: memoryview
    waits: memoryview | None


# Works until it is stopped, and returns how many records it wrote.
Loop = Callable[[Work], int]

# Makes process `index` ready.  What it does at the end is not measured.
Opener = Callable[[int], AbstractContextManager[Loop]]


@dataclass(frozen=True)
class Run:
    """What all of them did.  seconds: from the first one's beginning to the last one's end."""

    record_count: int
    seconds: float
    waits: Waits | None


def die_with_parent(parent: int) -> None:
    """End this process with the one that started it, also if that has ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def run_processes(opener: Opener, *, processes: int, seconds: float, keep_waits: bool) -> Run:
    """Let so many processes work for so long.  Raises: MeasureError with what one of them died of."""
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
    """What would end this process waits until all of it is done.

    Python ignores what is raised in a hook that runs at a fork, and one that is raised between the fork and the note
    of who was forked would leave a process that nobody ends.
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
        """Where process `index` notes how long each record took."""
        first = self._head + index * self._waits_count * 8
        return self._view[first : first + self._waits_count * 8].cast("Q") if self._waits_count else None

    def results(self, index: int) -> memoryview:
        """When process `index` began and ended, in ns, and how many records it wrote."""
        first = (index + 1) * _RESULT_BYTES
        return self._view[first : first + 3 * 8].cast("q")

    def result(self) -> Run:
        """What all of them did."""
        results = [tuple(self.results(index)) for index in range(self._processes)]
        seconds = (max(end for _, end, _ in results) - min(begin for begin, _, _ in results)) / 1e9
        count = sum(count for _, _, count in results)
        if not count:
            raise MeasureError("not one record was written in time")
        return Run(count, seconds, self._all_waits([count for _, _, count in results]))

    def _all_waits(self, counts: list[int]) -> Waits | None:
        taken: list[int] = []
        for index, count in enumerate(counts):
            waits = self.waits(index)
            if waits is None:
                return None
            taken.extend(waits[:count])
            waits.release()
        return Waits.of(taken)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        # Not closed: views of it may still be about, and it goes with the last of them.
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
        """Wait until it has all that it needs.  Raises: MeasureError where that went wrong."""
        said = self._read(1)
        if said != b"\0":
            raise MeasureError((said + self._read(1 << 16)).decode(errors="replace") or "a process died")

    def join(self) -> None:
        """Wait until it has ended.  Raises: MeasureError with what went wrong in it."""
        said = self._read(1 << 16)
        pid, self._pid = self._pid, 0
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            raise MeasureError(said.decode(errors="replace") or f"a process ended with {status}")

    def kill(self) -> None:
        """End it where it has not ended."""
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
                results[0] = time.monotonic_ns()
                results[2] = loop(work)
                results[1] = time.monotonic_ns()
        status = 0
    except BaseException as error:  # noqa: BLE001 - whatever it is, the table tells
        os.write(parent, f"{type(error).__name__}: {error}"[:1000].encode())
    finally:
        # Not sys.exit: what stands at the end of the measuring process belongs to it.
        os._exit(status)
