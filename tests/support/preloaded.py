"""Run a function with the injector preloaded: record its calls, and kill it at any of them.

It counts the calls that `stress/crash/preloaded/injector_library` replaces, on files under /dev/shm, in which the log
and the shared memory must be, and each futex call.  A process leaves the same files and shared memory wherever it is
killed between two such calls, except for its own stores to that memory.
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
    """The result of a function.

    calls: its calls, in order; the last call of a killed function was not made.
    result: its return value, None if it was killed.
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
    """Run `function(log, *arguments)` in a child of a process that has the injector preloaded.

    The function must be a module's, and its arguments and result picklable.
    kill_at: the call before which the process dies, from 0; a function with fewer calls is not killed, which ends a
        sweep.
    kinds, names_end: count only these kinds of calls, and only on files whose names end with this.
    shared_memory: whether calls on it count.  Their number varies: if a sweep elsewhere on the machine removes a
        staging area that is being created, it is created again.
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
    """Run the function on fresh copies of `start`, if it exists, killing it at one call after another.

    The caller checks the log after each death.  The last run is not killed.
    step: kill only at every `step`-th call, from a random first one.
    """
    for kill_at in itertools.count(random.SystemRandom().randrange(step), step):
        shutil.rmtree(log, ignore_errors=True)
        if start.exists():
            shutil.copytree(start, log)
        run = run_preloaded(function, log, *arguments, kill_at=kill_at, kinds=kinds)
        yield run
        sweep()  # a container has room for the shared memory of two hundred dead processes
        if not run.killed:
            return


class _Server:
    """The preloaded process, which forks the children: it has one thread, so a fork is cheap."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="preloaded-"))
        recorder = compile_recorder(self._folder)
        # A sanitizer's library must come first.
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
    """Return how many calls the current function has made."""
    return int(_slots[0].calls)


def serve() -> None:
    """Serve requests until the client has ended."""
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
        except BaseException:  # noqa: BLE001 - the error is sent to the test
            said = None, traceback.format_exc()
        disarm()
        pickle.dump(said, answer)
        answer.flush()
        status = 0
    finally:
        os._exit(status)
