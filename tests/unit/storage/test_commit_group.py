"""Group commit: one thread leads and the others wait, also if an exception ends the leader's block."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog.errors import PoisonedError, StateError
from binlog.storage.files import commit_at
from binlog.storage.handle import new_guard
from binlog.storage.native import CommitGroup, Guard
from tests.support.signals import interrupting


class Log:
    """A file of records of eight bytes, with a guard and a group."""

    def __init__(self, path: Path) -> None:
        self.guard: Guard = new_guard("the log")
        self.group = CommitGroup(self.guard)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.commit_count = 0
        self._data = bytearray()
        self._count = 0

    def append(self, number: int) -> int:
        """Append a record and return the position to wait for."""
        with self.guard:
            self._data += number.to_bytes(8, "big")
            self._count += 1
            until = self._count
        return until  # noqa: RET504

    def wait(self, until: int, *, synced: bool = True) -> bool:
        """Wait until it is committed; return whether this thread led."""
        with self.group.lead_or_wait(until, synced) as leads:
            if leads:
                self.commit(synced=synced)
        return leads

    def commit(self, *, synced: bool = True) -> None:
        """Commit as the leader."""
        with self.guard:
            data, self._data = self._data, bytearray()
            at = 8 * self._count - len(data)
            self.group.begin(self._count, synced)
        commit_at(self.group, self.fd, data, at, "the log")
        self.commit_count += 1


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "log")
    yield made
    os.close(made.fd)


def _records(log: Log) -> list[int]:
    data = os.pread(log.fd, 1 << 20, 0)
    return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 8)]


def test_threads_share_commits_and_each_finds_its_record(log: Log) -> None:
    together = threading.Barrier(8)  # otherwise a quick disk may have committed each before the next thread runs

    def work(thread: int) -> None:
        for number in range(200):
            until = log.append(thread * 1000 + number)
            together.wait()
            log.wait(until)
            assert log.group.durable >= until

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sorted(_records(log)) == sorted(thread * 1000 + number for thread in range(8) for number in range(200))
    assert log.commit_count < 1600


def test_one_thread_leads_each_commit(log: Log) -> None:
    for number in range(3):
        assert log.wait(log.append(number))
    assert not log.wait(2), "it was committed before"
    assert _records(log) == [0, 1, 2]


def test_written_bytes_are_not_durable(log: Log) -> None:
    log.wait(log.append(1), synced=False)
    assert (log.group.written, log.group.durable) == (1, 0)
    assert log.wait(1)
    assert log.group.durable == 1


def test_a_leader_interrupted_before_begin_passes_on_the_lead(log: Log) -> None:
    until = log.append(1)
    with pytest.raises(KeyboardInterrupt), log.group.lead_or_wait(until) as leads:  # noqa: PT012
        assert leads
        raise KeyboardInterrupt
    assert log.wait(until)
    assert _records(log) == [1]


def test_a_record_whose_wait_was_interrupted_is_committed_with_the_next(log: Log) -> None:
    leading, over = threading.Event(), threading.Event()
    first, mine = log.append(1), log.append(2)

    def lead() -> None:
        with log.group.lead_or_wait(first) as leads:
            assert leads
            leading.set()
            over.wait(60)

    with ThreadPoolExecutor(1) as pool, interrupting(signal.SIGALRM):
        led = pool.submit(lead)
        leading.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            log.wait(mine)
        over.set()
        led.result(timeout=60)
    assert _records(log) == [], "no thread leads"
    log.wait(log.append(3))
    assert _records(log) == [1, 2, 3]


def test_a_leader_interrupted_after_begin_poisons(log: Log) -> None:
    until = log.append(1)
    with pytest.raises(KeyboardInterrupt), log.group.lead_or_wait(until):  # noqa: PT012
        log.group.begin(until, True)
        raise KeyboardInterrupt
    for call in (lambda: log.wait(until), lambda: log.append(2)):
        with pytest.raises(PoisonedError, match="the log"):
            call()


def test_an_exception_after_the_commit_undoes_nothing(log: Log) -> None:
    until = log.append(1)
    with pytest.raises(KeyboardInterrupt), log.group.lead_or_wait(until):  # noqa: PT012
        log.commit()
        raise KeyboardInterrupt
    assert not log.wait(until)
    log.wait(log.append(2))
    assert _records(log) == [1, 2]


def test_a_failed_commit_raises_in_all_followers(tmp_path: Path) -> None:
    """All writes to /dev/null succeed, and fdatasync(2) returns EINVAL."""
    log = Log(Path("/dev/null"))
    with ThreadPoolExecutor(8) as pool:
        waits = [pool.submit(lambda: log.wait(log.append(1))) for _ in range(8)]
        for wait in waits:
            with pytest.raises(PoisonedError):
                wait.result(timeout=60)
    os.close(log.fd)


def test_a_signal_handler_of_the_leading_thread_cannot_wait(log: Log) -> None:
    until = log.append(1)
    with log.group.lead_or_wait(until):
        with pytest.raises(StateError, match="within a call of the log"):
            log.wait(until)
        log.commit()
    assert _records(log) == [1]


def test_an_interrupted_follower_does_not_stop_the_others(log: Log) -> None:
    leading, over = threading.Event(), threading.Event()
    first, mine, last = (log.append(number) for number in range(3))

    def lead() -> None:
        with log.group.lead_or_wait(first) as leads:
            assert leads
            leading.set()
            over.wait(60)
            # It commits nothing, so one of the followers must lead next.

    with ThreadPoolExecutor(2) as pool, interrupting(signal.SIGALRM):
        led = pool.submit(lead)
        leading.wait()
        other = pool.submit(log.wait, last)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            log.wait(mine)
        over.set()
        led.result(timeout=60)
        other.result(timeout=60)
    assert _records(log) == [0, 1, 2]


def _refused(log: Log, until: int) -> None:
    with pytest.raises(PoisonedError):
        log.wait(until)


@pytest.mark.slow
def test_all_followers_learn_of_a_failure_before_the_next_leader(log: Log) -> None:
    """One of them was woken to lead, and has not run yet."""
    first, interval = log.append(1), sys.getswitchinterval()
    others = [log.append(number) for number in range(2, 5)]
    with ThreadPoolExecutor(len(others)) as pool:
        with log.group.lead_or_wait(first) as leads:
            assert leads
            waits = [pool.submit(_refused, log, until) for until in others]
            time.sleep(0.2)
            sys.setswitchinterval(10)
        log.guard.fail(PoisonedError("elsewhere"))
        sys.setswitchinterval(interval)
        for wait in waits:
            wait.result(timeout=10)


@pytest.mark.slow
def test_a_follower_learns_of_a_failure_after_the_leader_has_finished(log: Log) -> None:
    leading, over = threading.Event(), threading.Event()
    first, mine = log.append(1), log.append(2)

    def lead() -> None:
        with log.group.lead_or_wait(first) as leads:
            assert leads
            leading.set()
            over.wait(60)

    with ThreadPoolExecutor(2) as pool:
        led = pool.submit(lead)
        leading.wait()
        log.guard.fail(PoisonedError("elsewhere"))
        waiting = pool.submit(_refused, log, mine)
        time.sleep(0.2)
        assert not waiting.done(), "its caller might close the file while the leader uses it"
        over.set()
        for each in (led, waiting):
            each.result(timeout=10)
