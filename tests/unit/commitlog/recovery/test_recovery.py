"""Rebuilding of queues and key index that were removed or damaged, or incomplete in a crash."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.commitlog.append.flush_services import Pace
from binlog.commitlog.append.message import Message
from binlog.commitlog.check.check import check_store
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.indexes.key_lookup import find_offsets
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.retention import Retention
from binlog.commitlog.store import MessageStore
from binlog.errors import AccessError, ClosedError, CorruptError, FullError
from binlog.format.commitlog.indexes import KEY_INDEX_HEADER, key_hash
from tests.support.checked_stores import OPTIONS, flip, log_file, make, overwrite, stored
from tests.support.checkout import ROOT
from tests.support.stores import SMALL
from tests.support.waiting import until, until_dispatched

_NO_PAUSE = Retention(hours=0, at_hour=None, pause_seconds=0, seconds=100)


@pytest.mark.parametrize("folder", ["consumequeue", "index"])
@pytest.mark.parametrize("crashed", [False, True])
def test_removed_indexes_are_rebuilt_completely(tmp_path: Path, folder: str, crashed: bool) -> None:
    """Although no queue is in the files that recovery reads in any case."""
    with MessageStore(tmp_path, SMALL) as store:
        for number in range(20):
            store.append(Message.of(f"t{number}", bytes(30_000), keys=["k"]))
    shutil.rmtree(tmp_path / folder)
    if crashed:
        (tmp_path / "abort").touch()
    with MessageStore(tmp_path, SMALL) as store:
        for number in range(20):
            assert store.queue_range(f"t{number}", 0) == range(1)
            assert len(store.find(f"t{number}", "k")) == 1


_OPENING = """
import sys
from tests.unit.commitlog.recovery.test_recovery import LARGE
from binlog.commitlog.store import MessageStore

MessageStore(sys.argv[1], LARGE)
"""
LARGE = StoreOptions(file_bytes=1 << 20, key_index=KeyIndexSize(10_000, 200_000), flush=Flush.ASYNC)


@pytest.mark.slow
def test_a_crash_while_the_key_index_is_rebuilt_loses_no_key(tmp_path: Path) -> None:
    with MessageStore(tmp_path, LARGE) as store:
        for batch in range(300):
            store.append([Message.of("t", bytes(300), keys=[f"k{100 * batch + n}"]) for n in range(100)])
        now = time.time() + 60
        store._log._clock = lambda: now
        store.append(Message.of("t", b"late", keys=["late"]))
    (tmp_path / "abort").touch()
    (index,) = (tmp_path / "index").iterdir()
    process = subprocess.Popen([sys.executable, "-c", _OPENING, str(tmp_path)], cwd=ROOT)
    try:
        # it removes the file, and creates another
        until(lambda: not index.exists())
        until(lambda: any(_entries(path) > 1 for path in (tmp_path / "index").iterdir()))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with MessageStore(tmp_path, LARGE) as store:
        assert [n for n in range(0, 30_000, 7) if not store.find("t", f"k{n}")] == []


def _entries(path: Path) -> int:
    data = path.read_bytes()[: KEY_INDEX_HEADER.size]
    return KEY_INDEX_HEADER.unpack(data)["entry_count"] if len(data) == KEY_INDEX_HEADER.size else 0


def test_no_file_is_removed_before_its_messages_are_dispatched(tmp_path: Path) -> None:
    with MessageStore(tmp_path, replace(SMALL, retention=_NO_PAUSE)) as store:
        dispatched = store._dispatcher.offset
        store._dispatcher.service.stop()
        for _ in range(10):
            store.append(Message("t", bytes(20_000)))
        assert store._dispatcher.offset == dispatched or store.remove_expired() == 0
        store._dispatcher.run()
        assert store.queue_range("t", 0) == range(10)
        assert store.remove_expired() == 3


@pytest.mark.parametrize("flush", [Flush.ASYNC, Flush.POOLED])
def test_no_file_is_removed_before_it_is_flushed(tmp_path: Path, flush: Flush) -> None:
    """The next flush resumes at the end of the last one."""
    never = Pace(1000.0, 1000, 1000.0)
    options = replace(SMALL, flush=flush, flush_pace=never, commit_pace=never, retention=_NO_PAUSE)
    with MessageStore(tmp_path, options) as store:
        store.append(Message("t", bytes(8000)))
        files = store._log.files
        if flush is Flush.POOLED:
            files.commit(0)
        files.flush(0)
        for _ in range(10):
            store.append(Message("t", bytes(20_000)))
        assert store.remove_expired() == 0
    with MessageStore(tmp_path, options) as store:
        assert store.queue_range("t", 0) == range(11)


def test_a_key_of_a_removed_message_is_not_found(tmp_path: Path) -> None:
    with MessageStore(tmp_path, replace(SMALL, retention=_NO_PAUSE)) as store:
        for _ in range(10):
            store.append(Message.of("t", bytes(20_000), keys=["k"]))
        until_dispatched(store)
        until(lambda: store.remove_expired() > 0)
        assert len(store.find("t", "k")) == len(store.queue_range("t", 0)) < 10


def _append(store: MessageStore, dispatched: list[int], raised: list[BaseException]) -> None:
    try:
        while True:
            dispatched.append(store.append(Message("t", bytes(1 << 20))).offset)
    except BaseException as error:  # noqa: BLE001 - it is looked at
        raised.append(error)


@pytest.mark.slow
@pytest.mark.parametrize("flush", list(Flush))
def test_appends_during_close_raise_closed_error(tmp_path: Path, flush: Flush) -> None:
    options = StoreOptions(file_bytes=1 << 25, key_index=KeyIndexSize(100, 1000), flush=flush)
    for _ in range(3):
        raised: list[BaseException] = []
        dispatched: list[int] = []
        store = MessageStore(tmp_path, options)

        threads = [threading.Thread(target=_append, args=(store, dispatched, raised)) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda dispatched=dispatched: len(dispatched) > 3)  # type: ignore[misc]
        store.close()
        for thread in threads:
            thread.join()
        assert [type(error) for error in raised] == [ClosedError] * 3
        with MessageStore(tmp_path, options) as again:
            assert [again.read(offset).offset for offset in dispatched] == dispatched


def test_a_file_that_could_not_be_created_returns_its_buffer(tmp_path: Path) -> None:
    with MessageStore(tmp_path, replace(SMALL, flush=Flush.POOLED)) as store:
        free = len(store._pool._free)
        (tmp_path / "commitlog" / f"{0:020d}").mkdir()
        for _ in range(3):
            with pytest.raises(AccessError):
                store.append(Message("t", b""))
        assert len(store._pool._free) == free
        (tmp_path / "commitlog" / f"{0:020d}").rmdir()
        store.append(Message("t", b""))


@pytest.mark.slow
def test_delays_survive_the_removal_of_parked_messages(tmp_path: Path) -> None:
    options = replace(SMALL, units_in_file=2, retention=_NO_PAUSE, queues_pace=Pace(0.001, 0, 0.001))
    with MessageStore(tmp_path, options) as store:
        for _ in range(4):
            store.append(Message.of("u", bytes(20_000), delay_level=18))
        until(lambda: store.queue_range("SCHEDULE_TOPIC_XXXX", 17) == range(4))
        queue = store._queues.get("SCHEDULE_TOPIC_XXXX", 17)
        assert queue is not None
        until(lambda: store._delays._next == {18: 0})
        first = queue.files.files[0]
        until(lambda: first.flushed_whole)  # files that are not flushed stay
        first.shut_down()  # the file is being removed, but the queue still lists it
        store.append(Message.of("t", b"", delay_level=1))
        until(lambda: len(store.queue_range("t", 0)) == 1)


def test_a_lookup_survives_the_removal_of_its_file(tmp_path: Path) -> None:
    with MessageStore(tmp_path, replace(SMALL, key_index=KeyIndexSize(10, 6))) as store:
        for _ in range(20):
            store.append(Message.of("t", b"", keys=["k"]))
        until(lambda: len(store.find("t", "k")) == 20)
        found = find_offsets(store._index._files[:1], key_hash("t", "k"), 0, 2**62)
        assert next(found) > 0
        store._index.remove_before(store.max_offset)
        assert len(list(found)) == 4
    with pytest.raises(ClosedError):
        store.find("t", "k")


@pytest.mark.parametrize("kept", [True, False])
def test_an_unfinished_key_index_does_not_prevent_opening(tmp_path: Path, kept: bool) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store.append(Message.of("t", b"", keys=["k"]))
    if not kept:
        for path in (tmp_path / "index").iterdir():
            path.unlink()
    (tmp_path / "index" / "29991231235959999").touch()
    (tmp_path / "abort").touch()
    with MessageStore(tmp_path, SMALL) as store:
        assert len(store.find("t", "k")) == 1
        assert not (tmp_path / "index" / "29991231235959999").exists()


def test_appends_resume_once_the_queues_have_room(tmp_path: Path) -> None:
    with MessageStore(tmp_path, replace(SMALL, units_in_file=20_000)) as store:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200 << 10, before[1]))  # less than a file of a queue
        try:
            store.append(Message("t", b"first"))
            until(lambda: bool(store._unhealthy))
            with pytest.raises(FullError):
                store.append(Message("t", b"refused"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        until(lambda: store.queue_range("t", 0) == range(1))
        until(lambda: not store._unhealthy)
        store.append(Message("t", b"second"))
        until(lambda: [message.body for message in store.pull("t", 0, 0, 9)] == [b"first", b"second"])


@pytest.mark.slow
def test_rebuilding_queues_does_not_truncate_the_log_at_old_damage(tmp_path: Path) -> None:
    path = make(tmp_path, OPTIONS, count=600)
    early = stored(path)[3]
    flip(*log_file(path, early.offset + 95))
    before = [file.read_bytes() for file in sorted((path / "commitlog").iterdir())]
    shutil.rmtree(path / "consumequeue")
    with pytest.raises(CorruptError, match="queues cannot be rebuilt"):
        MessageStore(path, OPTIONS)
    assert [file.read_bytes() for file in sorted((path / "commitlog").iterdir())] == before


@pytest.mark.slow
def test_rebuilding_the_key_index_does_not_truncate_the_log_at_old_damage(tmp_path: Path) -> None:
    path = make(tmp_path, OPTIONS, count=600)
    messages = stored(path)
    flip(*log_file(path, messages[3].offset + 95))
    shutil.rmtree(path / "index")
    with MessageStore(path, OPTIONS) as store:
        assert store.max_offset == messages[-1].offset + messages[-1].message_bytes
        assert len(store.find("b", "key-599")) == len(store.find("b", "key-101")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("crashed", [False, True])
def test_a_key_index_that_contradicts_itself_is_rebuilt(tmp_path: Path, *, crashed: bool) -> None:
    path = make(tmp_path, OPTIONS, count=600)
    files = sorted((path / "index").iterdir())
    overwrite(files[len(files) // 2], KEY_INDEX_HEADER.offset("entry_count"), (2**31 - 1).to_bytes(4, "big"))
    if crashed:
        (path / "abort").touch()
    with MessageStore(path, OPTIONS) as store:
        assert [n for n in range(600) if len(store.find("ab"[n % 2], f"key-{n}")) != 1] == []
    assert check_store(path) == []
