"""The tracer is believed by every crash test, so it is tested against functions whose calls are known."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import itertools
import mmap
import os
import platform
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support import tracer
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.process_state import state_of
from tests.support.syscall_names import call_name, table_of_names

pytestmark = pytest.mark.slow  # it proves the harness, and few changes touch that

_libc = ctypes.CDLL(None, use_errno=True)
_EXCHANGE = ["openat", "pwrite64", "fdatasync", "pread64", "ftruncate", "close"]


def _exchange(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.pwrite(descriptor, b"hello", 3)
    os.fdatasync(descriptor)
    os.pread(descriptor, 100, 0)
    os.ftruncate(descriptor, 4)
    os.close(descriptor)


def _forked(function: Callable[[], object]) -> int:
    """Run `function` in a forked process of the caller; its exit status, as subprocess's returncode."""
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _assert_closed(pipe: int) -> None:
    """All that held the other end of a pipe are gone, or soon will be."""
    assert select.select([pipe], [], [], 10)[0], "somebody still holds the other end"
    assert os.read(pipe, 1) == b""
    os.close(pipe)


# --- what is recorded


def test_calls_are_recorded_in_order_with_arguments_and_results(tmp_path: Path) -> None:
    before = time.monotonic_ns()
    seen = tracer.trace(_exchange, str(tmp_path / "file"))
    assert seen.names == _EXCHANGE, str(seen)
    descriptor = seen.calls[0].result
    write, read = seen.calls[1], seen.calls[3]
    assert (write.args[0], write.args[2], write.args[3], write.result) == (descriptor, 5, 3, 5)
    assert (read.args[0], read.args[2], read.args[3], read.result) == (descriptor, 100, 0, 8)
    assert (seen.exit_status, seen.error, seen.killed) == (0, None, False)
    times = [before, *(call.time_ns for call in seen.calls), time.monotonic_ns()]
    assert times == sorted(times)
    assert (tmp_path / "file").read_bytes() == b"\0\0\0h"


def test_a_function_without_calls_has_none() -> None:
    assert tracer.trace(sum, range(1000)).calls == []


def test_an_error_is_a_negative_result() -> None:
    def fail() -> None:
        with contextlib.suppress(OSError):
            os.close(9999)

    (call,) = tracer.trace(fail).calls
    assert (call.name, call.args[0], call.result) == ("close", 9999, -errno.EBADF)


def test_locks_and_waits_are_recorded(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    held = threading.Lock()
    held.acquire()

    def wait() -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        held.acquire(timeout=0.01)

    seen = tracer.trace(wait)
    os.close(descriptor)
    assert seen.names == ["fcntl", "futex"], str(seen)
    assert (seen.calls[0].args[:2], seen.calls[0].result) == ((descriptor, fcntl.F_SETLKW), 0)
    assert seen.calls[1].result == -errno.ETIMEDOUT


def test_an_unknown_call_is_named_by_its_number() -> None:
    (call,) = tracer.trace(_libc.syscall, 9999, 5).calls
    assert (call.name, call.args[0], call.result) == ("syscall_9999", 5, -errno.ENOSYS)


def test_the_calls_of_threads_are_recorded(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)

    def write_in_threads() -> None:
        for offset in range(3):
            thread = threading.Thread(target=os.pwrite, args=(descriptor, b"x", offset))
            thread.start()
            thread.join()

    seen = tracer.trace(write_in_threads)
    os.close(descriptor)
    writes = [call for call in seen.calls if call.name == "pwrite64"]
    assert [call.args[3] for call in writes] == [0, 1, 2], str(seen)
    assert all(call.result == 1 for call in writes)
    assert seen.calls[0].thread not in {call.thread for call in writes}
    assert sum(call.name in ("clone", "clone3") for call in seen.calls) == 3
    assert seen.exit_status == 0


# --- how it ends


def test_an_exception_comes_back_as_its_traceback() -> None:
    def fail() -> None:
        os.getppid()
        raise ValueError("told to")

    seen = tracer.trace(fail)
    assert (seen.exit_status, seen.names) == (1, ["getppid"])
    assert seen.error is not None
    assert seen.error.endswith("ValueError: told to\n")


def test_a_huge_traceback_is_cut_at_its_start() -> None:
    def fail() -> NoReturn:
        raise ValueError("x" * 1_000_000 + " the end")

    seen = tracer.trace(fail)
    assert seen.error is not None
    assert seen.error.endswith("x the end\n")


@pytest.mark.parametrize("status", [0, 7, 255])
def test_an_exit_status_is_told(status: int) -> None:
    seen = tracer.trace(os._exit, status)
    assert (seen.exit_status, seen.names, seen.calls[0].result) == (status, ["exit_group"], None)


def test_a_death_by_another_signal_is_no_kill_of_ours() -> None:
    seen = tracer.trace(lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert (seen.exit_status, seen.killed) == (-signal.SIGTERM, False)


def test_a_child_that_hangs_is_killed_and_told_with_its_last_call() -> None:
    reading, writing = os.pipe()
    with pytest.raises(TimeoutError, match=r"read\("):
        tracer.trace(os.read, reading, 1, timeout=1.0)
    os.close(writing)
    _assert_closed(reading)


def test_a_tracer_that_is_killed_takes_its_child_with_it() -> None:
    alive, held = os.pipe()
    ready, told = os.pipe()

    def hang() -> None:
        os.write(told, b"r")
        signal.pause()

    pid = os.fork()
    if pid == 0:
        try:
            tracer.trace(hang)
        finally:
            os._exit(1)
    os.read(ready, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(held)
    os.close(ready)
    os.close(told)
    _assert_closed(alive)


# --- killing


def test_a_killed_call_has_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "file"
    seen = tracer.trace(_exchange, str(path), kill_at=1)
    assert seen.killed_before is not None
    assert seen.killed_before.name == "pwrite64"
    assert (seen.names, seen.exit_status) == (["openat"], -signal.SIGKILL)
    assert path.read_bytes() == b""


def test_a_kill_at_a_lock_takes_no_lock_and_a_kill_after_it_frees_it(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)

    def lock_and_sync() -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        os.fdatasync(descriptor)

    for kill_at in (0, 1):
        assert tracer.trace(lock_and_sync, kill_at=kill_at).killed
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _sweep(function: Callable[..., object], *args: object) -> Iterator[tracer.Trace]:
    """Kill at each call in turn, and end with the run that survives; between runs our own memory changes a lot."""
    for kill_at in itertools.count():
        hoard = [os.urandom(size) for size in range(1, 40_000, 50 + kill_at)]
        seen = tracer.trace(function, *args, kill_at=kill_at)
        del hoard
        yield seen
        if not seen.killed:
            return


def test_a_sweep_strikes_as_often_as_the_full_run_has_calls(tmp_path: Path) -> None:
    sizes = []
    path = tmp_path / "file"
    for kill_at, seen in enumerate(_sweep(_exchange, str(path))):
        assert seen.names == _EXCHANGE[:kill_at]
        sizes.append(path.stat().st_size if path.exists() else None)
        path.unlink(missing_ok=True)
    assert kill_at == len(_EXCHANGE) == len(seen.calls)
    assert sizes == [None, 0, 8, 8, 8, 4, 4]


def _work(path: str) -> None:
    """Much allocation between the calls: small objects, large ones, and a frozen structure of both."""
    _exchange(path)
    rows = [{"index": index, "text": str(index) * 5, "bytes": bytes(index % 700)} for index in range(3000)]
    _exchange(path)
    blocks = [bytes(200_000) for _ in range(10)] + [b"".join(row["bytes"] for row in rows)]  # type: ignore[misc]
    _exchange(path)
    del rows, blocks
    _exchange(path)


def test_memory_that_the_child_asks_for_changes_no_count(tmp_path: Path) -> None:
    for seen in _sweep(_work, str(tmp_path / "file")):
        assert seen.names == (_EXCHANGE * 4)[: len(seen.calls)], str(seen)
    assert len(seen.calls) == 4 * len(_EXCHANGE)


def test_a_kill_past_the_end_does_not_strike(tmp_path: Path) -> None:
    seen = tracer.trace(_exchange, str(tmp_path / "file"), kill_at=len(_EXCHANGE))
    assert (seen.killed, seen.exit_status, seen.names) == (False, 0, _EXCHANGE)


def test_what_the_child_left_in_shared_memory_is_there_after_the_kill() -> None:
    shared = mmap.mmap(-1, 8)

    def count() -> None:
        for index in range(5):
            os.getppid()
            shared[index] = 1

    for kill_at in range(5):
        shared[:] = bytes(8)
        assert tracer.trace(count, kill_at=kill_at).killed
        assert sum(shared[:]) == kill_at
    shared.close()


def test_a_kill_strikes_all_threads(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)

    def write(base: int) -> None:
        for offset in range(1000):
            os.pwrite(descriptor, b"x", base + offset)

    def write_in_threads() -> None:
        threads = [threading.Thread(target=write, args=(base,)) for base in (0, 1000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    seen = tracer.trace(write_in_threads, kill_at=300)
    assert seen.killed
    assert len(seen.calls) == 300
    written = os.pread(descriptor, 3000, 0).count(b"x")
    os.close(descriptor)
    recorded = seen.names.count("pwrite64")
    assert recorded - 2 <= written <= recorded, "a call took effect that was not recorded"


# --- what else the child may do


def test_a_forked_grandchild_is_neither_traced_nor_broken() -> None:
    def fork() -> None:
        assert _forked(lambda: os._exit(9)) == 9
        assert _forked(lambda: [os.getppid() for _ in range(50)]) == 0

    seen = tracer.trace(fork)
    assert (seen.exit_status, seen.error) == (0, None)
    assert "getppid" not in seen.names
    assert seen.names.count("wait4") == 2
    assert len({call.thread for call in seen.calls}) == 1


def test_a_grandchild_that_outlives_the_child_delays_nobody() -> None:
    ready, told = os.pipe()
    reading, writing = os.pipe()

    def fork() -> None:
        if os.fork() == 0:
            os.close(writing)
            os.read(reading, 1)
            os.write(told, b"alive")
            os._exit(0)

    seen = tracer.trace(fork, timeout=10)
    assert seen.exit_status == 0
    os.close(writing)
    assert os.read(ready, 5) == b"alive"
    for descriptor in (ready, told, reading):
        os.close(descriptor)


def test_a_program_that_the_child_starts_runs() -> None:
    def start() -> None:
        assert subprocess.run([sys.executable, "-c", "raise SystemExit(5)"], check=False).returncode == 5

    seen = tracer.trace(start)
    assert (seen.exit_status, seen.error) == (0, None)


def test_a_signal_reaches_its_handler() -> None:
    def handle() -> None:
        caught: list[int] = []
        signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
        os.kill(os.getpid(), signal.SIGUSR1)
        assert caught == [signal.SIGUSR1]

    seen = tracer.trace(handle)
    assert (seen.exit_status, seen.error) == (0, None)
    assert "rt_sigreturn" in seen.names


def test_a_child_that_is_stopped_stays_so_until_it_is_continued() -> None:
    shared = mmap.mmap(-1, 2)  # the child went on; the grandchild has let it
    child_went_on, was_let = 0, 1

    def let_go_on(child: int) -> None:
        looks = 0
        while looks < 200 and not shared[child_went_on]:
            looks = looks + 1 if state_of(child) == "t" else 0
        shared[was_let] = 1
        while not shared[child_went_on]:
            os.kill(child, signal.SIGCONT)  # again and again: it may not have come to its stop yet
            os.sched_yield()

    def stop() -> None:
        child = os.getpid()
        if os.fork() == 0:
            let_go_on(child)
            os._exit(0)
        os.kill(child, signal.SIGSTOP)
        was_let_when_it_went_on = shared[was_let]
        shared[child_went_on] = 1
        os.wait()
        assert was_let_when_it_went_on

    seen = tracer.trace(stop, timeout=10)
    assert (seen.exit_status, seen.error) == (0, None)


def test_a_grandchild_that_fails_never_returns_into_the_tests() -> None:
    alive, held = os.pipe()

    def fork() -> None:
        child = os.getpid()
        if os.fork() == 0:
            while os.getppid() == child:
                os.sched_yield()
            raise ValueError("nobody reads this")

    own = os.getpid()
    assert tracer.trace(fork).exit_status == 0
    assert os.getpid() == own
    os.close(held)
    _assert_closed(alive)


# --- beside others


def test_other_children_of_this_process_are_not_waited_for(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # it is dead, and not reaped
    seen = tracer.trace(_exchange, str(tmp_path / "file"))
    assert seen.exit_status == 0
    assert other.wait() == 3


def test_several_traces_run_at_once(tmp_path: Path) -> None:
    def run(index: int) -> list[tracer.Trace]:
        return [tracer.trace(_exchange, str(tmp_path / str(index)), kill_at=kill_at) for kill_at in range(7)]

    with futures.ThreadPoolExecutor(4) as pool:
        for runs in pool.map(run, range(4)):
            assert [seen.names for seen in runs] == [_EXCHANGE[:kill_at] for kill_at in range(7)]
            assert [seen.killed for seen in runs] == [True] * 6 + [False]


def test_traces_leave_no_descriptor_and_no_thread() -> None:
    tracer.trace(os.getppid)
    descriptors, threads = descriptors_before(), threading.active_count()
    for kill_at in (0, None):
        tracer.trace(os.getppid, kill_at=kill_at)
    assert (count_descriptors(), threading.active_count()) == (descriptors, threads)


def test_it_is_quick_enough_for_sweeps() -> None:
    def call() -> None:
        for _ in range(5000):
            os.getppid()

    began = time.monotonic()
    seen = tracer.trace(call)
    stops_a_second = 2 * len(seen.calls) / (time.monotonic() - began)
    print(f"{stops_a_second:,.0f} stops a second")
    assert len(seen.calls) == 5000
    assert stops_a_second > 2000


# --- names


def test_the_table_of_names_agrees_with_the_header() -> None:
    headers = {
        "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "aarch64": "/usr/include/aarch64-linux-gnu/asm/unistd_64.h",
    }
    header = Path(headers.get(platform.machine(), "/nowhere"))
    table = table_of_names(platform.machine())
    if header.exists():
        found = re.findall(r"#define\s+__NR_(\w+)\s+(\d+)\s", header.read_text())
        assert table.items() <= {(int(number), name) for name, number in found}
    assert all(call_name(number) == name for number, name in table.items())


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_table_names_each_call_that_a_log_makes(machine: str) -> None:
    needed = """pread64 pwrite64 pwritev fdatasync fsync fcntl futex openat newfstatat fstat ftruncate fallocate
        renameat2 linkat unlinkat close mmap munmap write read getdents64 prctl clone clone3 exit_group"""
    assert set(needed.split()) <= set(table_of_names(machine).values())
    assert table_of_names("pdp11") == {}
