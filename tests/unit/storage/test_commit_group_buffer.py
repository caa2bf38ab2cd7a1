"""A CommitGroup with a file and a buffer: it commits in one call, or leaves that to the block."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog.errors import PoisonedError, StateError
from binlog.storage.files import check_commit
from binlog.storage.handle import new_guard
from binlog.storage.native import CommitGroup
from tests.support.signals import signal_main_thread


class Log:
    """A file of records of eight bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.guard = new_guard("the log")
        self.group = CommitGroup(self.guard)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.group.open(self.fd, os.fsencode(path))

    def append(self, number: int, zeros: int = 0) -> int:
        """Append a record and return the position to wait for."""
        with self.guard:
            until = self.group.appended + 1
            self.group.append(number.to_bytes(8, "big"), 8 * (until - 1), until, zeros)
        return until

    def wait(self, until: int, *, synced: bool = True) -> bool:
        """Wait until it is committed; return whether the block had to do it."""
        with self.group.lead_or_wait(until, synced) as leads:
            pass
        return leads


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "log")
    yield made
    os.close(made.fd)


def _records(log: Log) -> list[int]:
    data = log.path.read_bytes()
    return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 8)]


def test_one_thread_commits_its_record(log: Log) -> None:
    for number in range(3):
        until = log.append(number)
        assert log.group.pending == 8
        assert not log.wait(until)
        assert (log.group.pending, log.group.written, log.group.durable) == (0, until, until)
    assert _records(log) == [0, 1, 2]


def test_threads_share_commits_of_the_buffer(log: Log) -> None:
    def work(thread: int) -> None:
        for number in range(200):
            until = log.append(thread * 1000 + number)
            assert not log.wait(until)
            assert log.group.durable >= until

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sorted(_records(log)) == sorted(thread * 1000 + number for thread in range(8) for number in range(200))


def test_written_bytes_are_not_durable(log: Log) -> None:
    log.wait(log.append(1), synced=False)
    assert (log.group.written, log.group.durable) == (1, 0)
    assert _records(log) == [1]
    log.wait(1)
    assert log.group.durable == 1


def test_zeros_follow_the_last_record_until_another_does(log: Log) -> None:
    os.pwrite(log.fd, b"x" * 64, 0)
    log.append(1, zeros=20)
    log.wait(log.append(2, zeros=20))
    assert log.path.read_bytes() == (1).to_bytes(8, "big") + (2).to_bytes(8, "big") + bytes(20) + b"x" * 28
    log.wait(log.append(3))
    assert log.path.read_bytes()[16:] == (3).to_bytes(8, "big") + bytes(12) + b"x" * 28


def test_a_gap_in_the_buffer_is_refused(log: Log) -> None:
    log.append(1)
    with log.guard:
        for offset in (0, 7, 9):
            with pytest.raises(ValueError, match="do not follow"):
                log.group.append(b"data", offset, 2)
        with pytest.raises(ValueError, match="another file"):
            log.group.open(log.fd)
    log.wait(1)
    assert _records(log) == [1]


def test_the_block_commits_if_by_caller_is_set(log: Log) -> None:
    until = log.append(1, zeros=4)
    log.group.by_caller = True
    with log.group.lead_or_wait(until) as leads:
        assert leads
        with log.guard:
            offset, data = log.group.take(True)
            assert not log.group.by_caller
        assert (offset, data) == (0, (1).to_bytes(8, "big") + bytes(4))
        assert log.group.pending == 0
        assert log.group.commit(log.fd, data, offset) == 0
    assert not log.wait(log.append(2))
    assert _records(log) == [1, 2]


def test_the_block_leads_for_bytes_that_were_not_appended(log: Log) -> None:
    log.append(1)
    assert log.wait(2)
    assert log.group.durable == 0


def test_a_file_that_lost_its_name_is_not_written(log: Log) -> None:
    for change in (log.path.unlink, log.path.touch):
        until = log.append(1)
        change()
        assert log.wait(until), "the block must raise the error"
        assert (log.group.written, os.fstat(log.fd).st_size) == (0, 0)


@pytest.mark.parametrize(
    ("path", "flags"),
    [("/dev/null", os.O_RDWR), ("log", os.O_RDONLY), ("/dev/full", os.O_RDWR)],
    ids=["sync", "write", "full"],
)
def test_a_failure_is_raised_by_the_caller_and_by_all_later_calls(log: Log, path: str, flags: int) -> None:
    """/dev/null accepts writes and cannot sync; a read-only descriptor accepts no writes; /dev/full has no space."""
    broken = os.open(log.path.parent / path, flags | os.O_CLOEXEC)
    log.group.open(broken)
    until = log.append(1)
    with pytest.raises(PoisonedError), log.group.lead_or_wait(until) as leads:  # noqa: PT012
        assert leads
        assert (log.group.failed > 0) is (path == "/dev/null")
        check_commit(log.group.failed, "the log")
    with pytest.raises(PoisonedError):
        log.append(2)
    with pytest.raises(PoisonedError):
        log.wait(until)
    assert log.group.written == 0
    os.close(broken)


def test_a_reused_descriptor_is_not_written(log: Log, tmp_path: Path) -> None:
    """A daemon closes all descriptors, and its own files get their numbers."""
    until = log.append(1)
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(other, log.fd)
    os.close(other)
    with pytest.raises(StateError, match="closed its descriptors"):
        log.wait(until)
    assert os.fstat(log.fd).st_size == 0
    assert log.path.read_bytes() == b""


def test_a_forked_child_does_not_wait_for_a_leader_of_the_parent(log: Log) -> None:
    log.guard.bind(-1, 0, 0)
    until = log.append(1)
    with log.group.lead_or_wait(until + 1):  # this thread leads
        if (child := os.fork()) == 0:
            code = 1
            try:
                with pytest.raises(StateError, match="parent process"):
                    log.wait(until)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    log.wait(until)
    assert _records(log) == [1]


def test_a_thread_that_holds_the_guard_cannot_wait(log: Log) -> None:
    until = log.append(1)
    with log.guard, pytest.raises(StateError, match="within a call"):
        log.wait(until)
    assert not log.wait(until)


@pytest.mark.slow
def test_a_signal_handler_runs_after_the_commit_that_its_thread_leads(log: Log) -> None:
    """The handler may wait for another thread, which waits for that commit."""
    first, other = log.append(1), log.append(2)
    waiting = threading.Thread(target=log.wait, args=(other,))
    taken = threading.Event()
    is_done: list[bool] = []

    def hold() -> None:
        with log.guard:
            taken.set()
            time.sleep(0.2)  # the main thread leads, and waits for the guard
            waiting.start()
            time.sleep(0.1)
            signal_main_thread(signal.SIGALRM)
            time.sleep(0.1)

    def join(*_: object) -> None:
        waiting.join(5)
        is_done.append(not waiting.is_alive())

    before = signal.signal(signal.SIGALRM, join)
    holding = threading.Thread(target=hold)
    holding.start()
    taken.wait(60)
    try:
        assert not log.wait(first)
    finally:
        for thread in (holding, waiting):
            thread.join()
        signal.signal(signal.SIGALRM, before)
    assert is_done == [True]
