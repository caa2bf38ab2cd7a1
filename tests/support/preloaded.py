"""Run a function in a process that the injector is preloaded into: see which calls it makes, and kill it at any of
them.

The calls are those that `stress/crash/injector` interposes, on files under /dev/shm, where the log is to lie and where
the shared memory is; and each futex call.  A process that is killed with nothing between two of them leaves the same
files and shared memory at any place between the two, but for its stores to that memory.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import itertools
import mmap
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from binlog.storage.staging_area import sweep
from stress.crash.preloaded.injector import Action, Injection, Kind, Slots, arm, disarm, note_kinds
from stress.crash.preloaded.preload import compile_recorder
from tests.support.checkout import ROOT

_MEMORY = "/dev/shm"
_CALLS_MAX = 1 << 16
_SECONDS_MAX = 60

_slots = Slots(1)

_Request = tuple[Callable[..., object], tuple[object, ...], Injection, str]


@dataclass(frozen=True)
class Run:
    """What became of a function.

    calls: what it called, in that order; the last call of one that was killed is the one that did not take place.
    result: what it returned, None if it was killed.
    """

    calls: list[Kind]
    killed: bool
    result: Any


def run_preloaded(
    function: Callable[..., object],
    log: Path,
    *arguments: object,
    kill_at: int | None = None,
    kinds: tuple[Kind, ...] = tuple(Kind),
    names_end: str = "",
    shared_memory: bool = True,
) -> Run:
    """Run `function(log, *arguments)` in a child of a process that has its module imported, and the injector preloaded.

    The function is one of a module, and the arguments and the result can be pickled.
    kill_at: which of the calls, 0 the first, is the one before which the process dies; of a function that makes fewer
    the run is not killed.  So a sweep goes up from 0 until then.
    kinds, names_end: count no other calls, and only those that concern files whose names end so.
    shared_memory: whether calls on it count.  Their number varies: if a sweep elsewhere on the machine removes a
    staging area that is just being made, it is made again.
    Raises: AssertionError with the child's traceback if the function raises, or takes longer than a minute.
    """
    action = Action.NOTHING if kill_at is None else Action.KILL_BEFORE
    injection = Injection(action, kill_at or 0, kinds, names_end=names_end)
    under = os.path.commonpath([log, _MEMORY]) if shared_memory else str(log)
    return _server().run((function, (log, *arguments), injection, under))


def kill_at_each_call(
    function: Callable[..., object],
    start: Path,
    log: Path,
    *arguments: object,
    kinds: tuple[Kind, ...] = tuple(Kind),
    step: int = 1,
) -> Iterator[Run]:
    """Run the function on fresh copies of `start`, which need not be there, killed at one call after the other.

    After each death it is for the caller to look at the log.  The last run is the one that was not killed.
    step: at each of so many calls only; at which, each sweep draws.
    """
    for kill_at in itertools.count(random.SystemRandom().randrange(step), step):
        shutil.rmtree(log, ignore_errors=True)
        if start.exists():
            shutil.copytree(start, log)
        run = run_preloaded(function, log, *arguments, kill_at=kill_at, kinds=kinds)
        yield run
        sweep()  # a container has room for the shared memory of two hundred dead
        if not run.killed:
            return


class _Server:
    """The preloaded process, which forks the children: it has one thread, and a fork of it costs little."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="preloaded-"))
        recorder = compile_recorder(self._folder)
        # A sanitizer's library comes first: it asks for that.
        libraries = [os.environ.get("LD_PRELOAD", ""), str(recorder), str(recorder.with_name("injector.so"))]
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "LD_PRELOAD": " ".join(libraries).strip()},
        )
        atexit.register(self._end)

    def run(self, request: _Request) -> Run:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump(request, self._process.stdin)
        self._process.stdin.flush()
        calls, status, (result, error) = pickle.load(self._process.stdout)
        killed = status == -signal.SIGKILL
        assert error is None, error
        assert status == 0 or killed, f"{request[0]} ended with {status}; its calls: {calls}"
        return Run(calls, killed, result)

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        shutil.rmtree(self._folder)


@functools.cache
def _server() -> _Server:
    return _Server()


def calls_so_far() -> int:
    """How many calls the function that this is called from has made."""
    return int(_slots[0].calls)


def serve() -> None:
    """What the preloaded process does, until nobody is left who could ask for more."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    kinds = (ctypes.c_uint8 * _CALLS_MAX).from_buffer(mmap.mmap(-1, _CALLS_MAX))
    note_kinds(kinds)
    while True:
        try:
            request: _Request = pickle.load(requests)
        except EOFError:
            return
        with tempfile.TemporaryFile() as answer:
            pid = os.fork()
            if pid == 0:
                _run(request, answer)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            answer.seek(0)
            said = pickle.load(answer) if status == 0 else (None, None)
        pickle.dump(([Kind(kind) for kind in kinds[: calls_so_far()]], status, said), answers)
        answers.flush()


def _run(request: _Request, answer: IO[bytes]) -> NoReturn:
    status = 1
    try:
        function, arguments, injection, under = request
        signal.alarm(_SECONDS_MAX)
        gc.disable()
        arm(injection, under, _slots[0])
        try:
            said: tuple[object, str | None] = function(*arguments), None
        except BaseException:  # noqa: BLE001 - whatever it is, the test is told
            said = None, traceback.format_exc()
        disarm()
        pickle.dump(said, answer)
        answer.flush()
        status = 0
    finally:
        os._exit(status)
