"""If the cache of a queue is full, it swaps messages out, and delivers all of them in order."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.errors import CorruptError, FullError, NotFoundError
from binlog.format.pagestore.other_files import SWAP_RECORD
from binlog.pagestore import SwappingQueue, SwapStore
from binlog.pagestore import swap as swap_module
from tests.support.failing import raising
from tests.support.journals import flip
from tests.support.threads import at_once


def _files(path: Path) -> list[str]:
    return sorted(each.name for each in path.glob("*.swap"))


def _drain(queue: SwappingQueue) -> list[bytes]:
    bodies = []
    while (message := queue.get()) is not None:
        queue.remove(message.key)
        bodies.append(message.body)
    return bodies


def test_a_full_cache_swaps_messages_to_files(tmp_path: Path) -> None:
    with SwapStore(tmp_path, roll_bytes=60) as swap:
        queue = SwappingQueue(swap, "orders", cache_messages=3, cache_bytes=100)
        for number in range(7):
            queue.put(b"%d" % number * 20, priority=9 if number == 6 else 4)
        queue.put(bytes(90))
        assert (queue.waiting_count, queue.swapped_count) == (8, 5)
        assert _files(tmp_path) == ["orders-1.swap", "orders-2.swap"]
        assert _drain(queue) == [b"6" * 20, *(b"%d" % number * 20 for number in range(6)), bytes(90)]
        assert _files(tmp_path) == []
        queue.put(bytes(101))
        assert queue.swapped_count == 1
        assert _drain(queue) == [bytes(101)]


def test_a_returned_message_keeps_its_order_and_counts_the_delivery(tmp_path: Path) -> None:
    with SwapStore(tmp_path) as swap:
        queue = SwappingQueue(swap, "orders", cache_messages=1)
        for body in (b"one", b"two", b"three"):
            queue.put(body, expiration=7)
        got = [queue.get() for _ in range(3)]
        assert queue.get() is None
        for message in got:
            assert message is not None
            assert (message.delivery_count, message.expiration, message.queue) == (0, 7, "orders")
            queue.give_back(message.key)
            with pytest.raises(NotFoundError):
                queue.remove(message.key)
        record = SWAP_RECORD.unpack((tmp_path / "orders-1.swap").read_bytes()[: SWAP_RECORD.size])
        assert record["delivery_count"] == 1
        again = [queue.get() for _ in range(3)]
        assert [(each.body, each.delivery_count) for each in again if each] == [(b"one", 1), (b"two", 1), (b"three", 1)]


def test_a_full_disk_refuses_one_swapped_message_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SwapStore(tmp_path) as swap:
        queue = SwappingQueue(swap, "orders", cache_messages=1)
        queue.put(b"one")
        with monkeypatch.context() as patched:
            patched.setattr(swap_module, "write_at", raising(FullError("no space left")))
            with pytest.raises(FullError):
                queue.put(b"never")
        queue.put(b"two")
        assert _drain(queue) == [b"one", b"two"]


def test_a_damaged_message_does_not_block_others(tmp_path: Path) -> None:
    with SwapStore(tmp_path) as swap:
        queue = SwappingQueue(swap, "orders", cache_messages=0)
        for body in (b"one", b"two"):
            queue.put(body)
        (path,) = tmp_path.glob("*.swap")
        flip(path, SWAP_RECORD.size)
        with pytest.raises(CorruptError):
            queue.get()
        assert _drain(queue) == [b"two"]


def test_threads_share_a_queue(tmp_path: Path) -> None:
    found: list[bytes] = []
    with SwapStore(tmp_path, roll_bytes=1000) as swap:
        queue = SwappingQueue(swap, "orders", cache_messages=5)

        def work(thread: int) -> None:
            for number in range(100):
                queue.put(b"%d/%d" % (thread, number))
                message = queue.get()
                assert message is not None
                if number % 3:
                    queue.remove(message.key)
                    found.append(message.body)
                else:
                    queue.give_back(message.key)

        at_once(*(partial(work, thread) for thread in range(4)))
        found += _drain(queue)
        assert _files(tmp_path) == []
    assert sorted(found) == sorted(b"%d/%d" % (thread, number) for thread in range(4) for number in range(100))


@pytest.mark.slow
@given(
    calls=st.lists(st.tuples(st.sampled_from(["put", "put", "get", "remove", "give_back"]), st.integers(0, 9))),
    cache=st.integers(0, 3),
)
def test_messages_come_in_the_order_of_a_sorted_list(calls: list[tuple[str, int]], cache: int) -> None:
    with tempfile.TemporaryDirectory() as folder, SwapStore(folder, roll_bytes=50) as swap:
        queue = SwappingQueue(swap, "q", cache_messages=cache)
        waiting: list[tuple[int, int, int]] = []  # priority, key, deliveries
        given_: list[tuple[int, int, int]] = []
        for call, number in calls:
            if call == "put":
                key = queue.put(b"%d" % number * number, priority=number)
                waiting.append((-number, key, 0))
            elif call == "get":
                message = queue.get()
                if not waiting:
                    assert message is None
                    continue
                least = min(waiting)
                waiting.remove(least)
                given_.append(least)
                assert message is not None
                assert (-message.priority, message.key, message.delivery_count) == least
                assert message.body == b"%d" % message.priority * message.priority
            elif given_:
                priority, key, deliveries = given_.pop(number % len(given_))
                getattr(queue, call)(key)
                if call == "give_back":
                    waiting.append((priority, key, deliveries + 1))
            assert queue.waiting_count == len(waiting)
