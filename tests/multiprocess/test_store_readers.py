"""Readers of a store in processes of their own."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog.commitlog.append.flush_services import Pace
from binlog.commitlog.append.message import Message
from binlog.commitlog.check.check import check_store
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.store import MessageStore
from binlog.errors import AccessError, CorruptError, NotFoundError
from tests.support.checked_stores import MANUAL_RETENTION
from tests.support.checkout import ROOT
from tests.support.stores import has_unflushed, without_flushes
from tests.support.waiting import until

_OPTIONS = StoreOptions(file_bytes=1 << 16, units_in_file=50, key_index=KeyIndexSize(100, 150))
_MODES = [
    _OPTIONS,
    dataclasses.replace(_OPTIONS, flush=Flush.ASYNC),
    dataclasses.replace(_OPTIONS, flush=Flush.POOLED, commit_pace=Pace(0.01, 0, 0.01)),
]

_FOLLOWS = """
import sys
from binlog.commitlog.read.store_reader import StoreReader

with StoreReader(sys.argv[1]) as reader:
    print("ready", flush=True)
    for number, message in enumerate(reader.follow("t", int(sys.argv[2]), 0), 1):
        print(message.queue_offset, message.body.split()[0].decode(), flush=True)
        if number == int(sys.argv[3]):
            break
"""


def _follow(path: Path, queue_id: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _FOLLOWS, str(path), str(queue_id), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("options", _MODES, ids=["sync", "async", "pooled"])
def test_followers_in_other_processes_get_each_message_once_and_in_order(tmp_path: Path, options: StoreOptions) -> None:
    """The messages span several files of the log and of the queues.  Followers start before the first message."""
    count = 300
    with MessageStore(tmp_path, options) as store:
        followers = [_follow(tmp_path, queue, count) for queue in range(3)]
        for follower in followers:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "ready\n"

        def work(queue: int) -> None:
            for number in range(count):
                store.append(Message("t", b"%d " % number + bytes(number % 500), queue_id=queue))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
        for follower in followers:
            published, _ = follower.communicate(timeout=60)
            assert published == "".join(f"{number} {number}\n" for number in range(count))


@pytest.mark.slow
@pytest.mark.parametrize("options", _MODES, ids=["sync", "async", "pooled"])
def test_eight_threads_append_to_queues_that_other_processes_follow(tmp_path: Path, options: StoreOptions) -> None:
    """Every thread appends to every queue.  Each message is read once, in the order of its queue and of its thread."""
    threads, queues, count = 8, 3, 60
    with MessageStore(tmp_path, options) as store:
        followers = [_follow(tmp_path, queue, threads * count) for queue in range(queues)]
        for follower in followers:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "ready\n"

        def work(thread: int) -> None:
            for number in range(count):
                for queue in range(queues):
                    store.append(Message("t", b"%d-%d " % (thread, number) + bytes(number % 500), queue_id=queue))

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
        for follower in followers:
            published, _ = follower.communicate(timeout=60)
            lines = [line.split() for line in published.splitlines()]
            assert [int(index) for index, _ in lines] == list(range(threads * count))
            seen = [tuple(map(int, body.split("-"))) for _, body in lines]
            for thread in range(threads):
                assert [number for who, number in seen if who == thread] == list(range(count))


@pytest.mark.slow
def test_with_sync_flush_a_reader_sees_flushed_messages_only(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store, StoreReader(tmp_path) as reader:
        store.append(Message("t", b"first"))
        assert [message.body for message in reader.follow("t", 0, 0, timeout=1)] == [b"first"]
        with ThreadPoolExecutor(1) as pool:
            with without_flushes(store):
                wait = pool.submit(store.append, Message("t", b"second"))
                until(lambda: has_unflushed(store))
                store._dispatcher.run()
                assert reader.queue_range("t", 0) == range(1)
                assert reader.pull("t", 0, 1, 5) == ([], 1)
            wait.result()
        assert next(reader.follow("t", 0, 1, timeout=60)).body == b"second"
        assert reader.queue_range("t", 0) == range(2)


def test_a_reader_finds_by_offset_time_and_tag(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        times = []
        for number in range(120):
            tag = ("even", "odd")[number % 2]
            times.append(store.append(Message.of("t", b"%d" % number, tag=tag)).store_ms)
            if number % 40 == 39:
                time.sleep(0.05)
    # no process has the store now
    with StoreReader(tmp_path) as reader:
        assert reader.queue_range("t", 0) == range(120)
        odd, after = reader.pull("t", 0, 0, 30, tag="odd")
        assert ([message.body for message in odd], after) == ([b"%d" % number for number in range(1, 30, 2)], 30)
        assert reader.read(odd[3].offset) == odd[3]
        for number in (0, 41, 119):
            found = reader.find_by_time("t", 0, times[number])
            assert times[found] == times[number]
            assert found == 0 or times[found - 1] < times[number]
        assert reader.find_by_time("t", 0, 0) == 0
        assert reader.find_by_time("t", 0, 2**60) == 119
        assert list(reader.follow("t", 0, 118, timeout=0.1))[-1].body == b"119"
        assert reader.queue_range("t", 5) == reader.queue_range("u", 0) == range(0)
        assert reader.pull("u", 0, 7, 5) == ([], 7)
        with pytest.raises(NotFoundError):
            reader.read(10**9)
        with pytest.raises(CorruptError):
            reader.read(1)


def test_a_store_without_a_sidecar_is_read_and_polled(tmp_path: Path) -> None:
    """Like a store that RocketMQ has written."""
    with MessageStore(tmp_path, _OPTIONS) as store:
        store.append([Message("t", b"%d" % number) for number in range(60)])
    (tmp_path / "binlog.sidecar").unlink()
    with StoreReader(tmp_path) as reader:
        assert reader.queue_range("t", 0) == range(60)
        assert [message.body for message in reader.follow("t", 0, 55, timeout=0.2)] == [
            b"%d" % n for n in range(55, 60)
        ]


def test_a_reader_ignores_a_sidecar_older_than_rocketmqs_appends(tmp_path: Path) -> None:
    """RocketMQ writes into `lock` when it opens a store, and does not update the sidecar."""
    sidecar, lock = tmp_path / "binlog.sidecar", tmp_path / "lock"
    with MessageStore(tmp_path, _OPTIONS) as store:
        store.append([Message("t", b"1")] * 30)
    old = sidecar.read_bytes()
    with MessageStore(tmp_path, _OPTIONS) as store:
        store.append([Message("t", b"2")] * 30)
    sidecar.write_bytes(old)
    with StoreReader(tmp_path) as reader:
        assert reader.queue_range("t", 0) == range(30)
        lock.write_bytes(b"lock")
        assert reader.queue_range("t", 0) == range(60)
        assert len(list(reader.follow("t", 0, 0, timeout=0.1))) == 60
        with MessageStore(tmp_path, _OPTIONS) as store:
            assert lock.read_bytes() == b""
            store.append(Message("t", b"3"))
        assert reader.queue_range("t", 0) == range(61)


@pytest.mark.slow
def test_a_reader_follows_a_store_that_is_opened_later(tmp_path: Path) -> None:
    with pytest.raises((NotFoundError, AccessError)):
        StoreReader(tmp_path / "store")
    with MessageStore(tmp_path, _OPTIONS):
        pass
    with StoreReader(tmp_path) as reader, MessageStore(tmp_path, _OPTIONS) as store:
        store.append(Message("t", b"data"))
        assert next(reader.follow("t", 0, 0, timeout=60)).body == b"data"
        assert reader.queue_range("t", 0) == range(1)


def test_a_reader_needs_no_write_permission(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        store.append(Message("t", b"data"))
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            (Path(folder) / name).chmod(0o444)
        Path(folder).chmod(0o555)
    with StoreReader(tmp_path) as reader:
        assert reader.pull("t", 0, 0, 5)[0][0].body == b"data"
    for folder, _, _ in os.walk(tmp_path):
        Path(folder).chmod(0o755)


_FINDS = """
import sys
from binlog.commitlog import StoreReader

with StoreReader(sys.argv[1]) as reader:
    print("ready", flush=True)
    most = 0
    while most < int(sys.argv[2]):
        found = [int(message.body) for message in reader.find("t", "same", count=10**6)]
        assert found == list(range(len(found) - 1, -1, -1)), found
        assert len(found) >= most, (len(found), most)
        most = len(found)
        if most:
            assert [int(message.body) for message in reader.find("t", f"key-{most - 1}")] == [most - 1]
        reader.wait(1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", _MODES, ids=["sync", "async", "pooled"])
def test_a_found_key_stays_found_in_other_processes(tmp_path: Path, options: StoreOptions) -> None:
    """The keys span many files of the index, and are put during the lookups."""
    count = 500
    with MessageStore(tmp_path, options) as store:
        command = [sys.executable, "-c", _FINDS, str(tmp_path), str(count)]
        finders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for finder in finders:
            assert finder.stdout is not None
            assert finder.stdout.readline() == "ready\n"
        for number in range(count):
            store.append(Message.of("t", b"%d" % number, keys=["same", f"key-{number}"]))
        for finder in finders:
            finder.communicate(timeout=60)
            assert finder.returncode == 0


_CHECKS = """
import sys
from binlog.commitlog import check_store

print("ready", flush=True)
count = 0
while True:
    problems = check_store(sys.argv[1])
    assert problems == [], problems
    count += 1
    print(count, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", _MODES, ids=["sync", "async", "pooled"])
def test_a_check_during_writes_finds_no_problem(tmp_path: Path, options: StoreOptions) -> None:
    """Messages in flight, retention, and an owner that opens and closes the store cause no problem."""
    options = dataclasses.replace(options, retention=MANUAL_RETENTION)
    with MessageStore(tmp_path, options):
        pass
    command = [sys.executable, "-c", _CHECKS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as checker:
        assert checker.stdout is not None
        assert checker.stderr is not None
        assert checker.stdout.readline() == "ready\n"
        number = 0
        for _ in range(5):
            with MessageStore(tmp_path, options) as store:
                for _ in range(400):
                    body = b"%d" % number + bytes(number % 900)
                    message = Message.of("tu"[number % 2], body, queue_id=number % 3, tag="t", keys=[f"key-{number}"])
                    store.append([message, message])
                    number += 1
                while store._dispatcher.offset < store.max_offset:
                    time.sleep(0.001)
                store.remove_expired()
        seen = checker.stdout.readline()
        checker.kill()
        assert seen.strip().isdigit(), checker.stderr.read()
        assert checker.stderr.read() == ""


_APPENDS = """
import sys
from binlog.commitlog import Message, MessageStore
from tests.multiprocess.test_store_readers import _MODES

store = MessageStore(sys.argv[1], _MODES[int(sys.argv[2])])
for number in range(10**9):
    body = b"%d " % number + bytes(number % 300)
    store.append(Message.of("t", body, queue_id=number % 3, keys=[f"{number}", "same"]))
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", range(3))
def test_a_check_after_a_kill_finds_no_problem(tmp_path: Path, mode: int) -> None:
    command = [sys.executable, "-c", _APPENDS, str(tmp_path), str(mode)]
    for lines in (1, 40, 300, 700):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        assert (tmp_path / "abort").exists()
        assert check_store(tmp_path) == []
        with MessageStore(tmp_path, _MODES[mode]):
            assert check_store(tmp_path) == []
        assert check_store(tmp_path) == []
