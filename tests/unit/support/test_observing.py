"""The tracer beside a process that runs already, which it leaves as it was."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support import tracer
from tests.support.process_state import state_of

pytestmark = pytest.mark.slow  # it proves the harness, and few changes touch that

_WAITING = """
import os, threading
def wait():
    while True:
        threading.Event().wait(0.1)
threading.Thread(target=wait, daemon=True).start()
os.write(1, b"r")
while os.read(0, 1) != b"q":
    os.write(1, b"a")
raise SystemExit(4)
"""


def _await_sleep(pid: int) -> None:
    """Until its first thread waits in the kernel."""
    while state_of(pid) != "S":
        os.sched_yield()


def _await_end(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    select.select([descriptor], [], [])
    os.close(descriptor)


@contextlib.contextmanager
def _running(program: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that says when it is ready, and does not outlive the block."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            assert _answer(process) == b"r"
            yield process
        finally:
            process.kill()


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[bytes]]:
    """A process of two threads: one wakes ten times a second, the other answers each byte."""
    with _running(_WAITING) as process:
        yield process


def _say(process: subprocess.Popen[bytes], what: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(what)


def _answer(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.read(1)


def test_an_idle_process_is_observed_for_a_while(waiting: subprocess.Popen[bytes]) -> None:
    _await_sleep(waiting.pid)
    began = time.monotonic_ns()
    seen = tracer.observe(waiting.pid, 1.0)
    assert time.monotonic_ns() - began >= 10**9
    assert set(seen.names) == {"futex"}, "the read was begun before, and no other thread makes calls"
    assert 5 <= len(seen.calls) <= 10, str(seen)
    assert all(began < call.time_ns < began + 2 * 10**9 for call in seen.calls)
    assert seen.exit_status is None
    _say(waiting, b"x")
    assert _answer(waiting) == b"a", "it is not as it was before"


_SLEEPING = [
    "os.read(0, 1)",
    "threading.Event().wait()",
    "threading.Event().wait(600)",
    "time.sleep(600)",
    "select.select([0], [], [], 600)",
]


@pytest.mark.parametrize("call", _SLEEPING)
def test_a_call_that_the_kernel_begins_again_is_not_counted(call: str) -> None:
    with _running(f"import os, select, threading, time; os.write(1, b'r'); {call}") as process:
        _await_sleep(process.pid)
        for _ in range(3):
            assert tracer.observe(process.pid, 0.05).calls == []
        _await_sleep(process.pid)


def test_what_a_process_does_within_a_block_is_seen(waiting: subprocess.Popen[bytes]) -> None:
    _await_sleep(waiting.pid)
    with tracer.attached(waiting.pid) as seen:
        _say(waiting, b"x")
        assert _answer(waiting) == b"a"
        _say(waiting, b"x")
        assert _answer(waiting) == b"a"
    main = [call.name for call in seen.calls if call.thread == waiting.pid]
    assert main[:4] in (["write", "read", "write", "read"], ["write", "read", "write"]), str(seen)


def test_threads_that_start_meanwhile_are_followed_and_let_go() -> None:
    program = """
import os, threading
os.write(1, b"r")
while os.read(0, 1):
    for _ in range(20):
        threading.Thread(target=os.getppid).start()
    os.write(1, b"a")
"""
    with _running(program) as process:
        for _ in range(10):
            with tracer.attached(process.pid):
                _say(process, b"x")  # and let go at once: threads start while we leave
            assert _answer(process) == b"a"
        with tracer.attached(process.pid) as seen:
            _say(process, b"x")
            assert _answer(process) == b"a"
        assert seen.names.count("getppid") >= 15, "those that started last may not have come to it"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0


def test_a_process_that_starts_threads_all_the_time_survives_being_observed() -> None:
    program = """
import os, threading
os.write(1, b"r")
while True:
    threads = [threading.Thread(target=os.getppid) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
    with _running(program) as process:
        for index in range(100):
            seen = tracer.observe(process.pid, 0.005 * (index % 3))
            assert seen.exit_status is None
            assert process.poll() is None, "a thread was left to us, and died with the tracer"


def test_a_process_that_ends_is_left_to_its_parent(waiting: subprocess.Popen[bytes]) -> None:
    with tracer.attached(waiting.pid) as seen:
        _say(waiting, b"q")
        _await_end(waiting.pid)
    assert seen.exit_status == 4
    assert waiting.wait() == 4


def test_observing_ends_with_the_process(waiting: subprocess.Popen[bytes]) -> None:
    began = time.monotonic()
    _say(waiting, b"q")
    try:
        assert tracer.observe(waiting.pid, 600).exit_status == 4
    except PermissionError:
        assert waiting.wait() == 4  # it was quicker, and a dead process cannot be observed
    assert time.monotonic() - began < 60


def test_an_exception_within_the_block_lets_the_process_go(waiting: subprocess.Popen[bytes]) -> None:
    with pytest.raises(ValueError, match="told to"), tracer.attached(waiting.pid):
        raise ValueError("told to")
    _say(waiting, b"x")
    assert _answer(waiting) == b"a"


def test_a_process_that_is_not_there_or_not_to_be_traced_is_an_error(waiting: subprocess.Popen[bytes]) -> None:
    with pytest.raises(PermissionError):
        tracer.observe(os.getpid(), 1)
    with tracer.attached(waiting.pid), pytest.raises(PermissionError, match="traced already"):
        tracer.observe(waiting.pid, 1)
    waiting.kill()
    waiting.wait()
    with pytest.raises(ProcessLookupError):
        tracer.observe(waiting.pid, 1)
