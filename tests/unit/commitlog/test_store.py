from __future__ import annotations

import dataclasses
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog.commitlog.append.flush_services import Pace
from binlog.commitlog.append.message import Message
from binlog.commitlog.check.check import check_store
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.store import MessageStore
from binlog.errors import BusyError, ClosedError, CorruptError, NotFoundError
from binlog.format.commitlog.indexes import QueueUnit
from binlog.format.commitlog.message_parts import Host
from binlog.format.commitlog.store_files import parse_checkpoint
from binlog.storage.mapping import shared_names
from tests.support.checked_stores import overwrite
from tests.support.children import run_script
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.stores import SMALL, has_unflushed, without_flushes
from tests.support.waiting import until

_NEVER = 3600.0
_INDEX = KeyIndexSize(slots=100, entries=150)
_OPTIONS = StoreOptions(file_bytes=1 << 16, units_in_file=50, key_index=_INDEX)
_POOLED = dataclasses.replace(_OPTIONS, flush=Flush.POOLED, commit_pace=Pace(0.05, 0, 0.05))
_NEVER_COMMITTED = dataclasses.replace(_POOLED, commit_pace=Pace(_NEVER, 0, _NEVER))
_ASYNC = StoreOptions(
    file_bytes=1 << 16, units_in_file=50, flush=Flush.ASYNC, flush_pace=Pace(_NEVER, 4, _NEVER), key_index=_INDEX
)  # fmt: skip


def _buffers(path: Path) -> list[str]:
    """Return the store's buffers in shared memory."""
    status = path.stat()
    return shared_names(f"binlog-pool-{status.st_dev:x}-{status.st_ino:x}-")


def _body(number: int) -> bytes:
    return b"message %d " % number + bytes(number % 700)


def _fill(store: MessageStore, count: int) -> None:
    """Append messages to two queues of two topics."""
    for number in range(count):
        store.append(
            Message.of("ab"[number % 2], _body(number), queue_id=number // 2 % 2, tag="t", keys=[f"key-{number}"])
        )


def _ranges(store: MessageStore) -> list[range]:
    return [store.queue_range(topic, queue) for topic in "ab" for queue in (0, 1)]


def _bodies(store: MessageStore) -> set[bytes]:
    return {
        message.body for topic in "ab" for queue in (0, 1) for message in store.pull(topic, queue, 0, 10_000)
    }  # fmt: skip


def test_messages_are_pulled_from_their_queue_in_order(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "store", _OPTIONS) as store:
        _fill(store, 400)
        until(lambda: sum(map(len, _ranges(store))) == 400)
        found = store.pull("b", 1, 0, 1000)
        assert [message.body for message in found] == [_body(number) for number in range(3, 400, 4)]
        assert [message.queue_offset for message in found] == list(range(100))
        assert [message.body for message in store.pull("b", 1, 98, 5)] == [_body(395), _body(399)]
        assert store.pull("b", 1, 100, 5) == store.pull("b", 7, 0, 5) == store.pull("c", 0, 0, 5) == []
        assert store.queue_range("c", 0) == range(0)
        with pytest.raises(NotFoundError):
            store.read(store.max_offset)


@pytest.mark.parametrize("options", [_OPTIONS, _ASYNC, _POOLED], ids=["sync", "async", "pooled"])
@pytest.mark.slow
def test_a_clean_restart_changes_nothing(tmp_path: Path, options: StoreOptions) -> None:
    with MessageStore(tmp_path / "store", options) as store:
        _fill(store, 300)
        end = store.max_offset
    assert not (tmp_path / "store" / "abort").exists()
    with MessageStore(tmp_path / "store", options) as store:
        assert (tmp_path / "store" / "abort").read_text() == str(os.getpid())
        assert store.max_offset == end
        assert _ranges(store) == [range(75)] * 4
        assert _bodies(store) == set(map(_body, range(300)))
        found = [store.find("ab"[number % 2], f"key-{number}") for number in range(300)]
        assert [[message.body for message in each] for each in found] == [[_body(number)] for number in range(300)]
        assert store.append(Message("a", b"")).queue_offsets == [75]
    assert _buffers(tmp_path / "store") == []


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.slow
def test_only_a_damaged_last_message_is_dropped(tmp_path: Path, crashed: bool) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 299)
        last = store.append(Message.of("b", b"the last one", queue_id=1))
        until(lambda: sum(map(len, _ranges(store))) == 300)
    path = tmp_path / "commitlog" / f"{last.offset - last.offset % _OPTIONS.file_bytes:020d}"
    with path.open("r+b") as file:
        file.seek(last.offset % _OPTIONS.file_bytes + last.message_bytes - 30)
        file.write(b"\xff")
    if crashed:
        (tmp_path / "abort").touch()
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert store.max_offset == last.offset
        assert _ranges(store) == [range(75)] * 3 + [range(74)]
        assert _bodies(store) == set(map(_body, range(299)))
        found = [store.find("ab"[number % 2], f"key-{number}") for number in range(299)]
        assert [[message.body for message in each] for each in found] == [[_body(number)] for number in range(299)]
        again = store.append(Message.of("b", b"again", queue_id=1))
        assert (again.offset, again.queue_offsets) == (last.offset, [74])
        until(lambda: store.queue_range("b", 1) == range(75))
        assert store.pull("b", 1, 74, 5)[0].body == b"again"


@pytest.mark.parametrize("count", [1, 3, 200])
def test_keys_of_dropped_messages_are_dropped(tmp_path: Path, count: int) -> None:
    """Keys of the messages that take their places are put, and found."""
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 100)
        dropped = [store.append(Message.of("a", b"x" * 90, keys=["same", f"old-{n}"])) for n in range(count)]
    path = tmp_path / "commitlog" / f"{dropped[0].offset - dropped[0].offset % _OPTIONS.file_bytes:020d}"
    with path.open("r+b") as file:
        file.seek(dropped[0].offset % _OPTIONS.file_bytes + 100)
        file.write(b"\xff")
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert store.max_offset == dropped[0].offset
        assert store.find("a", "same") == store.find("a", "old-0") == []
        added = [store.append(Message.of("a", b"%d" % n, keys=["new"])) for n in range(3)]
        until(lambda: len(store.find("a", "new")) == 3)
        assert [message.offset for message in store.find("a", "new")] == [each.offset for each in reversed(added)]
    assert check_store(tmp_path) == []


def test_erased_messages_never_reappear(tmp_path: Path) -> None:
    """A shorter message in place of a damaged one must not revive the messages after it."""
    with MessageStore(tmp_path, _OPTIONS) as store:
        places = [store.append(Message("a", bytes(200))).offset for _ in range(10)]
    (path,) = (tmp_path / "commitlog").iterdir()
    with path.open("r+b") as file:
        file.seek(places[5] + 100)
        file.write(b"\xff")
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert store.max_offset == places[5]
        store.append(Message("a", bytes(200)))  # of the same size, so that the messages after it would be valid again
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert store.max_offset == places[6]
        assert store.queue_range("a", 0) == range(6)


@pytest.mark.slow
def test_a_second_owner_is_refused_with_the_holder(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        store.append(Message("a", b"1"))
        with pytest.raises(BusyError, match="belongs to this process already"):
            MessageStore(tmp_path, _OPTIONS)
        other = run_script(
            "import sys; from binlog.commitlog.store import MessageStore; MessageStore(sys.argv[1])", tmp_path
        )
        assert f"belongs to process {os.getpid()}" in other.stderr
        store.append(Message("a", b"2"))
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert store.queue_range("a", 0) == range(2)


def test_messages_are_found_by_store_time(tmp_path: Path) -> None:
    """Ten messages, each stored some milliseconds later: a little before each time, and 20 seconds out of the range."""
    with MessageStore(tmp_path, _OPTIONS) as store:
        times = []
        for number in range(10):
            host = Host.parse("[::1]:5" if number % 2 else "127.0.0.1:5")
            times.append(store.append(Message.of("a", _body(number), born_host=host)).store_ms)
            until(lambda: time.time() * 1000 > times[-1] + 10)
        until(lambda: store.queue_range("a", 0) == range(10))
        for skew, found in ((-2, range(10)), (0, range(10)), (2, [*range(1, 10), 9])):
            assert [store.find_by_time("a", 0, when + skew) for when in times] == list(found)
        assert {store.find_by_time("a", 0, when - 20_000) for when in times} == {0}
        assert {store.find_by_time("a", 0, when + 20_000) for when in times} == {9}


def test_an_unknown_queue_is_empty(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        store.append(Message("a", b""))
        for topic, queue_id in (("a", 1), ("b", 0)):
            assert store.find_by_time(topic, queue_id, 5) == 0
            assert store.queue_range(topic, queue_id) == range(0)
            assert store.pull(topic, queue_id, 0, 5) == []


def test_the_checkpoint_covers_only_synced_messages(tmp_path: Path) -> None:
    """Recovery starts three seconds earlier."""
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 50)
        last = store.append(Message.of("a", b"", keys=["k"])).store_ms
    for _ in range(2):
        checkpoint = parse_checkpoint((tmp_path / "checkpoint").read_bytes())
        assert (tmp_path / "checkpoint").stat().st_size == 4096
        assert (checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms) == (last, last, last)
        assert checkpoint.recovery_ms == last - 3000
        with MessageStore(tmp_path, _OPTIONS) as store:
            assert store._index_flusher.read() == checkpoint


def test_with_sync_flush_unflushed_messages_are_hidden(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        with ThreadPoolExecutor(1) as pool:
            with without_flushes(store):
                wait = pool.submit(store.append, Message("a", b"data"))
                until(lambda: has_unflushed(store))
                store._dispatcher.run()
                assert store.queue_range("a", 0) == range(0)
                assert not wait.done()
            wait.result()
        until(lambda: store.queue_range("a", 0) == range(1))


def test_with_async_flush_unflushed_messages_are_visible(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _ASYNC) as store:
        store.append(Message("a", b"data"))
        until(lambda: store.queue_range("a", 0) == range(1))
        assert store._log.files.flushed_where == 0
        assert store.pull("a", 0, 0, 1)[0].body == b"data"


@pytest.mark.slow
def test_many_threads_append_durably_and_in_queue_order(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:

        def work(number: int) -> None:
            for count in range(100):
                appended = store.append(Message("a", b"%d %d" % (number, count), queue_id=number % 2))
                assert store._log.files.flushed_where >= appended.next_offset

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    with MessageStore(tmp_path, _OPTIONS) as store:
        for queue in (0, 1):
            found = [tuple(map(int, message.body.split())) for message in store.pull("a", queue, 0, 1000)]
            assert len(found) == 400
            for number in range(queue, 8, 2):
                assert [count for who, count in found if who == number] == list(range(100))


def test_the_abort_marker_stays_if_messages_were_not_dispatched(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, _ASYNC)
    store.append(Message("a", b"1"))
    until(lambda: store.queue_range("a", 0) == range(1))
    (tmp_path / "consumequeue" / "b").write_text("where a folder should be")
    store.append(Message("b", b"2"))
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        store.close()
    assert (tmp_path / "abort").exists()
    (tmp_path / "consumequeue" / "b").unlink()
    with MessageStore(tmp_path, _ASYNC) as store:
        assert (store.queue_range("a", 0), store.queue_range("b", 0)) == (range(1), range(1))
    assert not (tmp_path / "abort").exists()


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [slice(0, 8), slice(8, 12), slice(12, 20), slice(0, 20)])
@pytest.mark.parametrize("number", [0, 50, 74])
def test_units_torn_by_a_power_cut_are_put_again(tmp_path: Path, number: int, zeros: slice) -> None:
    """Otherwise such units would lead to another message, or to one without that tag."""
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 300)
    (tmp_path / "abort").touch()
    path = tmp_path / "consumequeue" / "b" / "1" / f"{number // 50 * 50 * 20:020d}"
    before = path.read_bytes()
    data = bytearray(before)
    at = number % 50 * 20
    data[at + zeros.start : at + zeros.stop] = bytes(zeros.stop - zeros.start)
    path.write_bytes(data)
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert _ranges(store) == [range(75)] * 4
        assert path.read_bytes() == before


@pytest.mark.parametrize("is_lost", [False, True], ids=["message kept", "message lost"])
@pytest.mark.parametrize("before", ["none", "removed", "kept"])
def test_half_of_a_unit_is_not_taken_for_the_unit_of_a_message_that_retention_removed(
    tmp_path: Path, before: str, is_lost: bool
) -> None:
    """A power cut left its size and not its offset, and 0 is before the first offset of the log."""

    filling = [Message.of("a", bytes(30_000))] * 5  # two to a file
    earlier = [Message.of("b", b"before")] * 2
    messages = {"none": filling, "removed": earlier + filling, "kept": filling[:3] + earlier + filling[3:]}
    with MessageStore(tmp_path, SMALL) as store:
        for message in messages[before]:
            store.append(message)
        appended = store.append(Message.of("b", b"last"))
    (tmp_path / "abort").touch()
    first, _, third = sorted((tmp_path / "commitlog").iterdir())
    first.unlink()
    (index,), (offset,) = appended.queue_offsets, appended.offsets
    overwrite(tmp_path / "consumequeue" / "b" / "0" / f"{0:020d}", index * 20, bytes(8))
    if is_lost:
        overwrite(third, offset - int(third.name), bytes(1000))
    with MessageStore(tmp_path, SMALL) as store:
        start = 0 if before == "kept" else index
        assert store.queue_range("b", 0) == range(start, index + (not is_lost))
        bodies = [message.body for message in store.pull("b", 0, start, 9)]
        assert bodies == [b"before"] * (index - start) + [b"last"] * (not is_lost)


def test_a_torn_unit_of_a_lost_message_is_dropped(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 3)
    (tmp_path / "abort").touch()
    unit = QueueUnit(0, 100, 0).pack()
    folder = tmp_path / "consumequeue" / "c" / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(unit.ljust(1000, b"\0"))
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert store.queue_range("c", 0) == range(0)
        assert store.append(Message("c", b"")).queue_offsets == [0]


def test_a_failed_opening_leaves_nothing_open(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 30)
    (tmp_path / "index" / "20260101000000000").write_bytes(b"short")
    before = descriptors_before()
    with pytest.raises(CorruptError, match="the file has 5 bytes"):
        MessageStore(tmp_path, _OPTIONS)
    assert count_descriptors() == before


@pytest.mark.parametrize(("topic", "queue_id"), [("", 0), ("a/b", 0), ("..", 0), ("é", 0), ("t" * 256, 0), ("a", -1)])
def test_a_topic_or_queue_without_a_valid_folder_is_refused(tmp_path: Path, topic: str, queue_id: int) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        with pytest.raises(ValueError, match="invalid or reserved"):
            store.append([Message("a", b""), Message(topic, b"", queue_id=queue_id)])
        assert store.max_offset == 0


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, _OPTIONS)
    store.close()
    store.close()
    for call in (lambda: store.append(Message("a", b"")), store.remove_expired):
        with pytest.raises(ClosedError):
            call()


def test_a_store_with_files_of_another_size_is_refused_unchanged(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        store.append(Message("a", b"data"))
    with pytest.raises(CorruptError, match="gives 32768"):
        MessageStore(tmp_path, dataclasses.replace(_OPTIONS, file_bytes=1 << 15))
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert store.pull("a", 0, 0, 9)[0].body == b"data"


def test_threads_end_with_the_store(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/task"))
    with MessageStore(tmp_path, _OPTIONS):
        threads = set(os.listdir("/proc/self/task")) - before
        assert len(threads) == 5
    until(lambda: threads.isdisjoint(os.listdir("/proc/self/task")))


_DIES = """
import os, sys
from binlog.commitlog.append.message import Message
from binlog.commitlog.store import MessageStore
from tests.unit.commitlog.test_store import _NEVER_COMMITTED

store = MessageStore(sys.argv[1], _NEVER_COMMITTED)
for number in range(int(sys.argv[2])):
    store.append(Message("a", b"%d" % number + bytes(1000)))
    if number == int(sys.argv[3]):
        while store._log.files.commit():
            pass
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("count", "committed"), [(10, -1), (10, 5), (150, -1), (150, 20), (150, 70), (400, 10)])
def test_buffers_of_a_dead_process_are_recovered(tmp_path: Path, count: int, committed: int) -> None:
    """A file has some sixty messages, and two files at a time have buffers; without one, messages are written at once.

    The third file gets the buffer of the first one, which has older messages after its end.
    """
    run_script(_DIES, tmp_path, count, committed).check_returncode()
    assert _buffers(tmp_path)
    with MessageStore(tmp_path, _OPTIONS) as store:
        bodies = [message.body.rstrip(bytes(1)) for message in store.pull("a", 0, 0, 1000)]
        assert bodies == [b"%d" % number for number in range(count)]
    assert _buffers(tmp_path) == []


def test_without_shared_memory_messages_are_written_to_the_file(tmp_path: Path) -> None:
    with MessageStore(tmp_path, dataclasses.replace(_POOLED, pool_buffers=0)) as store:
        _fill(store, 100)
        until(lambda: sum(map(len, _ranges(store))) == 100)


@pytest.mark.slow
@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("lost", ["", "a", "a/1", "b/0"])
def test_removed_queues_are_rebuilt(tmp_path: Path, lost: str, crashed: bool) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 600)
        until(lambda: sum(map(len, _ranges(store))) == 600)
        assert len(store._log.files.files) > 4
    shutil.rmtree(tmp_path / "consumequeue" / lost)
    if crashed:
        (tmp_path / "abort").touch()
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert _ranges(store) == [range(150)] * 4
        assert _bodies(store) == set(map(_body, range(600)))
        assert store.append(Message("a", b"", queue_id=1)).queue_offsets == [150]


@pytest.mark.slow
def test_a_queue_that_lost_its_later_files_is_rebuilt(tmp_path: Path) -> None:
    with MessageStore(tmp_path, _OPTIONS) as store:
        _fill(store, 600)
    folder = tmp_path / "consumequeue" / "b" / "1"
    files = sorted(folder.iterdir())
    assert len(files) > 2
    for file in files[1:]:
        file.unlink()
    with MessageStore(tmp_path, _OPTIONS) as store:
        assert _ranges(store) == [range(150)] * 4
        assert _bodies(store) == set(map(_body, range(600)))
