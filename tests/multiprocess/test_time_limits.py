"""Appends with a time limit while another process is stopped, or a sync hangs, in the middle of a commit."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog import Mode, Writer
from binlog.errors import BusyError, UnknownOutcomeError
from stress.crash.preloaded.injector import Action, Injection, Kind, arm, disarm
from tests.support.children import Child
from tests.support.logs import job, jobs_by_writer, read_all
from tests.support.preloaded import run_preloaded
from tests.support.threads import at_once
from tests.support.waiting import until

# Generous, for a busy machine; the wait that it must not have taken lasts forever.
_LATE = 5.0
_TIMEOUT = 0.05
_LARGE = 100_000  # too large to be staged


@contextmanager
def _in_time(timeout: float = _TIMEOUT) -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert timeout <= time.monotonic() - begun < timeout + _LATE


@contextmanager
def _locked(log: Path) -> Iterator[None]:
    fd = os.open(log / "00000001.dat", os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
        yield
    finally:
        os.close(fd)


def _is_blocked(child: Child) -> bool:
    return any("fcntl" in path.read_text() for path in Path(f"/proc/{child.pid}/task").glob("*/wchan"))


def _until_stopped(child: Child) -> None:
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)


def _lead_and_stop(log: Path, record: bytes, ready: int, go: int) -> None:
    """Append a record in a process that stops just before its sync."""
    with Writer(log) as writer:
        os.write(ready, b".")
        os.read(go, 1)
        arm(Injection(Action.STOP, kinds=(Kind.DATA_SYNC,)), str(log))
        writer.append(record)
        disarm()


def _beside_a_stopped_leader(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"first", timeout=60)
        ready, go = os.pipe(), os.pipe()
        os.write(go[1], b".")
        leader = Child(_lead_and_stop, log, b"leader's", ready[1], go[0])
        _until_stopped(leader)

        def give_up() -> None:
            for mode in (Mode.SYNC, Mode.FLUSH):
                for size in (10, _LARGE):
                    with _in_time(), pytest.raises(BusyError):
                        writer.append(b"late".ljust(size), mode=mode, timeout=_TIMEOUT)

        at_once(*[give_up] * 3)
        for number in range(100):
            with _in_time(0):
                writer.append(job(1, number), mode=Mode.STAGE, timeout=_TIMEOUT)
        os.kill(leader.pid, signal.SIGCONT)
        leader.join()
        writer.append(b"last", timeout=60)


def test_a_leader_that_is_stopped_before_it_takes_the_record_costs_the_limit(log: Path) -> None:
    run_preloaded(_beside_a_stopped_leader, log)
    found = read_all(log)
    assert found[:2] + found[-1:] == [b"first", b"leader's", b"last"]
    assert found[2:-1] == [job(1, number) for number in range(100)]


def _taken_by_a_stopped_leader(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"first", timeout=60)
        outcomes: list[type[Exception]] = []

        def append() -> None:
            with _in_time(0.5), pytest.raises(UnknownOutcomeError):
                writer.append(b"taken", timeout=0.5)
            outcomes.append(UnknownOutcomeError)

        thread = threading.Thread(target=append)
        ready, go = os.pipe(), os.pipe()
        leader = Child(_lead_and_stop, log, b"leader's", ready[1], go[0])
        os.read(ready[0], 1)
        with _locked(log):
            os.write(go[1], b".")
            until(lambda: _is_blocked(leader))
            thread.start()
            until(lambda: any(call.append.request.ticket >= 0 for call in list(writer._leading._calls)))
        _until_stopped(leader)
        thread.join()
        assert outcomes
        with _in_time(), pytest.raises(BusyError):
            writer.append(b"late", timeout=_TIMEOUT)
        os.kill(leader.pid, signal.SIGCONT)
        leader.join()
        writer.append(b"last", timeout=60)


def test_the_outcome_of_a_record_that_a_stopped_leader_has_taken_is_unknown(log: Path) -> None:
    run_preloaded(_taken_by_a_stopped_leader, log)
    assert sorted(read_all(log)) == sorted([b"first", b"leader's", b"taken", b"last"])


def _with_a_sync_that_hangs(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"first", timeout=60)
        for size in (10, _LARGE):
            arm(Injection(Action.HANG, kinds=(Kind.DATA_SYNC,)), str(log))
            with _in_time(), pytest.raises(UnknownOutcomeError):
                writer.append(b"hangs".ljust(size), timeout=_TIMEOUT)
            for late in (10, _LARGE):
                with _in_time(), pytest.raises(BusyError):
                    writer.append(b"late".ljust(late), timeout=_TIMEOUT)
            disarm()
            writer.append(b"next".ljust(size), timeout=60)


def test_a_sync_of_this_process_that_hangs_costs_the_limit(log: Path) -> None:
    run_preloaded(_with_a_sync_that_hangs, log)
    pairs = [record.ljust(size) for size in (10, _LARGE) for record in (b"hangs", b"next")]
    assert read_all(log) == [b"first", *pairs]


def _append_for_ever(log: Path, number: int) -> None:
    with Writer(log) as writer:
        for sequence in range(10**9):
            writer.append(job(number, sequence), mode=Mode.FLUSH if sequence % 3 else Mode.SYNC)


def test_no_record_is_lost_or_doubled_if_processes_stop_at_random_moments(log: Path) -> None:
    """Each thread retries after BusyError, and never after UnknownOutcomeError."""
    random.seed(7)
    done, unknown = set[tuple[int, int]](), set[tuple[int, int]]()
    over = threading.Event()
    with Writer(log) as writer:
        others = [Child(_append_for_ever, log, number) for number in (10, 11)]

        def append(number: int) -> None:
            sequence = 0
            while not over.is_set():
                mode, size = random.choice((Mode.SYNC, Mode.FLUSH)), random.choice((40, 40, 40, 70_000))
                try:
                    writer.append(job(number, sequence, size), mode=mode, timeout=random.choice((0.002, 0.01)))
                except BusyError:
                    continue
                except UnknownOutcomeError:
                    unknown.add((number, sequence))
                else:
                    done.add((number, sequence))
                sequence += 1

        threads = [threading.Thread(target=append, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(60):
            other = random.choice(others)
            before = len(done)
            until(lambda before=before: len(done) > before)
            os.kill(other.pid, signal.SIGSTOP)
            time.sleep(0.02)  # the limits of some calls pass meanwhile, if the stopped process has the lock
            os.kill(other.pid, signal.SIGCONT)
        over.set()
        for thread in threads:
            thread.join()
        for other in others:
            os.kill(other.pid, signal.SIGKILL)
            os.waitpid(other.pid, 0)
        writer.append(job(9, 0), timeout=60)
    found = jobs_by_writer(read_all(log))
    ours = [(number, sequence) for number in range(3) for sequence in found.get(number, [])]
    assert len(ours) == len(set(ours))
    assert done <= set(ours) <= done | unknown
    assert found[9] == [0]


def _append_with_limits(log: Path, number: int, count: int) -> None:
    with Writer(log) as writer:
        for sequence in range(count):
            writer.append(job(number, sequence), timeout=60 if number % 2 else None)


def test_processes_with_and_without_limits_share_commits(log: Path) -> None:
    children = [Child(_append_with_limits, log, number, 300) for number in range(6)]
    for child in children:
        child.join()
    assert jobs_by_writer(read_all(log)) == {number: list(range(300)) for number in range(6)}
