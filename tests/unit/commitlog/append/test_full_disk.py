"""A store on a full disk: a small file system of the test, in a mount namespace.

A store to a page without a block would kill the process (SIGBUS), so a full disk must be found before.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.commitlog.append.flush_services import Pace
from binlog.commitlog.append.message import Message
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.retention import Retention
from binlog.commitlog.store import MessageStore
from binlog.errors import FullError
from binlog.format.commitlog.names import ABORT_FILE
from tests.support.namespaces import on_a_small_disk
from tests.support.turns import in_turn
from tests.support.waiting import until

# Retention neither refuses nor removes anything, so that the full disk itself is tested.
_RETENTION = Retention(hours=1e6, expire_ratio=2, force_ratio=2, full_ratio=2)
_LOG_GROWS = StoreOptions(
    file_bytes=1 << 16, units_in_file=4096, key_index=KeyIndexSize(100, 5000), retention=_RETENTION
)  # fmt: skip
_QUEUES_GROW = dataclasses.replace(_LOG_GROWS, file_bytes=1 << 21, units_in_file=512)
_INDEX_GROWS = dataclasses.replace(_LOG_GROWS, file_bytes=1 << 21, key_index=KeyIndexSize(20_000, 10))
_FLUSHES = [
    {"flush": Flush.SYNC},
    {"flush": Flush.ASYNC},
    {"flush": Flush.POOLED, "commit_pace": Pace(0.01, 0, 0.01)},
]


def _append_until_full(store: MessageStore, make: Callable[[int], Message], start: int) -> int:
    """Return the number of messages once appends are refused because the disk is full."""
    for number in range(start, start + 20_000):
        try:
            store.append(make(number))
        except FullError:
            for _ in range(3):
                with pytest.raises(FullError):
                    store.append(make(number))
            return number
        # One by one, because queues are created more slowly than messages are appended, and would need room later.
        until(lambda made=number + 1: _has_dispatched(store, made) or store._dispatcher.service.full is not None)
    raise AssertionError("the disk is never full")


def _check(store: MessageStore, make: Callable[[int], Message], count: int) -> None:
    """Check that each message is in the log, in its queue, and if it has a key, in the key index."""
    for number in range(count):
        message = make(number)
        queue = store.queue_range(message.topic, message.queue_id)
        assert len(queue) > 0
    found = list(store._log.scan(0))
    assert [message.body for message in found] == [make(number).body for number in range(count)]
    for message in found:
        (pulled,) = store.pull(message.topic, message.queue_id, message.queue_offset, 1)
        assert pulled == message
    if make(0).properties:
        for number in range(count):
            assert [message.body for message in store.find("t", f"k{number}")] == [make(number).body]


def _take_the_rest(filler: Path) -> None:
    """Allocate all free space, also if another thread allocates some meanwhile."""
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


def _has_dispatched(store: MessageStore, count: int) -> bool:
    """Return whether the queues and the index have this number of messages."""
    units = [queue.unit(queue.max_index - 1) for queue in store._queues]
    end = max((unit.offset + unit.message_bytes for unit in units if unit), default=0)
    return sum(queue.max_index for queue in store._queues) == count and store._dispatcher.offset >= end


def _use(disk: Path, options: StoreOptions, make: Callable[[int], Message]) -> None:
    """Fill the disk, make room, and continue: once with the store open all the time, once after reopening."""
    filler = disk / "filler"
    filler.write_bytes(bytes(1 << 19))
    with MessageStore(disk / "store", options) as store:
        count = _append_until_full(store, make, 0)
        assert count > 5
        filler.unlink()
        until(lambda: _has_dispatched(store, count))
        until(lambda: _appends(store, make(count)))
        count += 1
        _take_the_rest(filler)
        count = _append_until_full(store, make, count)
        filler.unlink()
        until(lambda: _has_dispatched(store, count))
        _check(store, make, count)
    assert not (disk / "store" / "abort").exists()
    with MessageStore(disk / "store", options) as store:
        _check(store, make, count)


def _appends(store: MessageStore, message: Message) -> bool:
    try:
        store.append(message)
    except FullError:
        return False
    return True


def _large(number: int) -> Message:
    return Message("t", b"%d " % number + bytes(5000))


def _each_its_own_queue(number: int) -> Message:
    return Message("t", b"%d" % number, queue_id=number)


def _with_keys(number: int) -> Message:
    return Message.of("t", b"%d" % number, keys=[f"k{number}"])


@pytest.mark.slow
@pytest.mark.parametrize("flush", in_turn(_FLUSHES), ids=lambda flush: flush["flush"].value)
@pytest.mark.parametrize(
    ("options", "make"),
    [(_LOG_GROWS, _large), (_QUEUES_GROW, _each_its_own_queue), (_INDEX_GROWS, _with_keys)],
    ids=["log", "queues", "index"],
)
def test_a_full_disk_refuses_appends_until_there_is_room(
    tmp_path: Path, options: StoreOptions, make: Callable[[int], Message], flush: dict[str, object]
) -> None:
    """No acknowledged message is missing, whether the log, a queue or the index found no room."""
    options = dataclasses.replace(options, **flush)  # type: ignore[arg-type]
    on_a_small_disk(tmp_path, lambda: _use(tmp_path, options, make), size="4m")


def _open_and_close(disk: Path) -> None:
    filler = disk / "filler"
    with MessageStore(disk / "store", _LOG_GROWS) as store:
        for number in range(20):
            store.append(_large(number))
    _take_the_rest(filler)
    for _ in range(3):
        with pytest.raises(FullError):
            MessageStore(disk / "store", _LOG_GROWS)  # the store has to create `abort`
    with pytest.raises(FullError):
        MessageStore(disk / "another", _LOG_GROWS)
    filler.unlink()
    assert (disk / "store" / ABORT_FILE).exists()
    with MessageStore(disk / "store", _LOG_GROWS) as store:
        _check(store, _large, 20)
    assert not (disk / "store" / ABORT_FILE).exists()


@pytest.mark.slow
def test_an_opening_that_fails_on_a_full_disk_does_no_harm(tmp_path: Path) -> None:
    on_a_small_disk(tmp_path, lambda: _open_and_close(tmp_path))


@pytest.mark.parametrize("flush", list(Flush))
@pytest.mark.parametrize("folder", ["/dev", "/dev/shm"])
@pytest.mark.slow
def test_a_store_works_without_shared_memory(on_disk: Path, folder: str, flush: Flush) -> None:
    options = dataclasses.replace(_LOG_GROWS, flush=flush)

    def work() -> None:
        for number in range(2):
            with MessageStore(on_disk, options) as store:
                store.append(Message("topic", b"%d" % number))

    on_a_small_disk(Path(folder), work, size="16k")
    with MessageStore(on_disk, options) as store:
        assert len(store.queue_range("topic", 0)) == 2
