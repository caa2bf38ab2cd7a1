from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog.commitlog.append.flush_services import (
    CommitRealTimeService,
    FlushRealTimeService,
    FlushService,
    GroupCommitService,
    Pace,
)
from binlog.commitlog.files.mapped_file import PAGE_BYTES
from binlog.commitlog.files.mapped_file_queue import MappedFileQueue
from binlog.errors import AccessError, ClosedError, PoisonedError
from tests.support.stores import Buffer
from tests.support.waiting import until

_FILE_BYTES = 64 * PAGE_BYTES
_NEVER = 3600.0


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[MappedFileQueue]:
    made = MappedFileQueue(str(tmp_path), _FILE_BYTES)
    yield made
    made.close()


@pytest.fixture
def started() -> Iterator[Callable[[FlushService], FlushService]]:
    services: list[FlushService] = []

    def start(service: FlushService) -> FlushService:
        service.start()
        services.append(service)
        return service

    yield start
    for service in services:
        with contextlib.suppress(PoisonedError):
            service.stop()


_Start = Callable[[FlushService], FlushService]


def _append(queue: MappedFileQueue, data: bytes) -> int:
    assert queue.last_file().append(data)
    return queue.wrote_where


def _break(queue: MappedFileQueue) -> None:
    """Make every sync of the last file fail: /dev/null does not support it (EINVAL)."""
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, queue.files[-1]._file.open().fd)
    os.close(null)


def test_waiting_threads_return_once_their_bytes_are_flushed(queue: MappedFileQueue, started: _Start) -> None:
    dispatched: list[int] = []
    service = started(GroupCommitService(queue, lambda: dispatched.append(queue.flushed_where)))
    mutex = threading.Lock()

    def work(number: int) -> None:
        for _ in range(50):
            with mutex:
                offset = _append(queue, bytes((number,)) * 100)
            service.appended(offset)
            assert queue.flushed_where >= offset

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert queue.flushed_where == queue.wrote_where == 8 * 50 * 100
    assert max(dispatched) == queue.wrote_where


def test_threads_that_wait_during_a_sync_share_the_next_one(queue: MappedFileQueue, started: _Start) -> None:
    dispatched: list[int] = []
    service = started(GroupCommitService(queue, lambda: dispatched.append(queue.flushed_where)))
    offsets = [_append(queue, bytes((number,)) * 100) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        with service._group.lead_or_wait(1 << 62):  # as if another thread were syncing
            waits = [pool.submit(service.appended, offset) for offset in offsets]
        for wait in waits:
            wait.result(timeout=60)
    assert set(dispatched) == {8 * 100}


@pytest.mark.slow
def test_an_append_waits_for_a_slow_sync(queue: MappedFileQueue, started: _Start) -> None:
    service = GroupCommitService(queue)
    started(service)
    offset = _append(queue, b"data")
    with ThreadPoolExecutor(1) as pool:
        with service._group.lead_or_wait(1 << 62):  # as if another thread were writing
            waits = pool.submit(service.appended, offset)
            with pytest.raises(TimeoutError):
                waits.result(timeout=0.2)
            assert queue.flushed_where < offset
        waits.result(timeout=60)
    assert queue.flushed_where == offset


@pytest.mark.slow
def test_stopping_a_poisoned_service_waits_for_the_leader(queue: MappedFileQueue, started: _Start) -> None:
    service = GroupCommitService(queue)
    started(service)
    offset = _append(queue, b"data")
    with ThreadPoolExecutor(1) as pool, service._group.lead_or_wait(offset + 1):
        queue.guard.fail(KeyboardInterrupt())
        stops = pool.submit(service.stop)
        with pytest.raises(TimeoutError):
            stops.result(timeout=0.2)
    with pytest.raises(PoisonedError):
        stops.result(timeout=60)


def test_a_failed_flush_is_raised_in_waiting_and_later_threads(queue: MappedFileQueue, started: _Start) -> None:
    service = GroupCommitService(queue, lambda: None)
    started(service)
    queue.last_file()
    null = os.open("/dev/null", os.O_WRONLY)
    service._group.open(null)
    offset = _append(queue, b"data")
    with ThreadPoolExecutor(4) as pool:
        waits = [pool.submit(service.appended, offset) for _ in range(4)]
        for wait in waits:
            with pytest.raises(PoisonedError):
                wait.result()
    with pytest.raises(PoisonedError):
        service.check()
    with pytest.raises(PoisonedError):
        service.stop()
    os.close(null)


def test_a_waiting_thread_returns_when_the_service_stops(queue: MappedFileQueue) -> None:
    service = GroupCommitService(queue, lambda: None)
    offset = _append(queue, b"data")
    service.stop()
    assert queue.flushed_where == offset
    with pytest.raises(ClosedError):
        service.appended(offset + 1)


def test_a_synced_full_file_may_be_removed_before_the_next_commit(queue: MappedFileQueue, started: _Start) -> None:
    service = started(GroupCommitService(queue))
    service.appended(_append(queue, b"x" * _FILE_BYTES))
    offset = _append(queue, b"behind")
    assert queue.remove_first(lambda file: file.end <= queue.flushed_where, 1) == 1
    service.appended(offset)
    assert queue.files[-1].read(6, 0) == b"behind"


def test_a_file_without_a_free_descriptor_is_continued_later(queue: MappedFileQueue, started: _Start) -> None:
    service = started(GroupCommitService(queue))
    _append(queue, b"x" * _FILE_BYTES)
    queue.allocate_next()
    queue._file_pool.close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(AccessError):
            queue.last_file()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    service.appended(queue.wrote_where)
    service.appended(_append(queue, b"behind"))
    assert (queue.files[0].read(3, 0), queue.files[1].read(6, 0)) == (b"xxx", b"behind")


def test_a_flush_happens_when_enough_pages_are_due(queue: MappedFileQueue, started: _Start) -> None:
    service = started(FlushRealTimeService(queue, lambda: None, Pace(0.005, 4, _NEVER)))
    offset = _append(queue, b"x" * (4 * PAGE_BYTES - 1))
    service.appended(offset)
    assert queue.flushed_where == 0
    _append(queue, b"x")
    until(lambda: queue.flushed_where == 4 * PAGE_BYTES)


def test_a_thorough_flush_syncs_less_than_a_page(queue: MappedFileQueue, started: _Start) -> None:
    dispatched = threading.Event()
    started(FlushRealTimeService(queue, dispatched.set, Pace(0.005, 4, 0.05)))
    _append(queue, b"data")
    until(lambda: queue.flushed_where == 4)
    assert dispatched.wait(30)


def test_stop_flushes_everything(queue: MappedFileQueue) -> None:
    service = FlushRealTimeService(queue, lambda: None, Pace(_NEVER, 4, _NEVER))
    service.start()
    for _ in range(3):
        _append(queue, b"x" * _FILE_BYTES)
    _append(queue, b"x")
    service.stop()
    assert queue.flushed_where == 3 * _FILE_BYTES + 1


def test_a_failed_background_flush_is_raised_in_the_next_append(queue: MappedFileQueue, started: _Start) -> None:
    service = started(FlushRealTimeService(queue, lambda: None, Pace(0.005, 0, 0.005)))
    queue.last_file()
    _break(queue)
    _append(queue, b"data")

    def refused() -> bool:
        try:
            service.check()
        except PoisonedError:
            return True
        return False

    until(refused)


def test_buffered_bytes_are_committed_and_then_flushed(tmp_path: Path, started: _Start) -> None:
    queue = MappedFileQueue(str(tmp_path), _FILE_BYTES, buffer=lambda _: Buffer(_FILE_BYTES))
    flushing = FlushRealTimeService(queue, lambda: None, Pace(_NEVER, 0, 0.0))
    started(CommitRealTimeService(queue, flushing, lambda: None, Pace(0.005, 4, 0.02)))
    offset = _append(queue, b"staged")
    until(lambda: queue.flushed_where == offset)
    assert (tmp_path / f"{0:020d}").read_bytes()[:6] == b"staged"


def test_stop_commits_all_buffers(tmp_path: Path) -> None:
    queue = MappedFileQueue(str(tmp_path), _FILE_BYTES, buffer=lambda _: Buffer(_FILE_BYTES))
    flushing = FlushRealTimeService(queue, lambda: None, Pace(_NEVER, 4, _NEVER))
    service = CommitRealTimeService(queue, flushing, lambda: None, Pace(_NEVER, 4, _NEVER))
    service.start()
    for _ in range(2):
        _append(queue, b"x" * _FILE_BYTES)
    _append(queue, b"yz")
    assert queue.committed_where == 0
    service.stop()
    assert queue.committed_where == queue.flushed_where == 2 * _FILE_BYTES + 2
    assert (tmp_path / f"{2 * _FILE_BYTES:020d}").read_bytes()[:3] == b"yz\0"
