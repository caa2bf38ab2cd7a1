"""A queue: the order of messages in memory and in pages, and the promises of its methods."""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import Mode
from binlog.compose import open_queue
from binlog.errors import BusyError, GoneError, StateError
from tests.support.children import Child
from tests.support.paging import copy_after_crash
from tests.support.queues import SMALL, bodies, get_all, page_count


@pytest.mark.parametrize("memory_bytes", [0, 2000, 1 << 20])
def test_a_queue_delivers_messages_in_order(folder: Path, memory_bytes: int) -> None:
    with open_queue(folder, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as q:
        for body in bodies(200):
            q.put(body)
        assert q.qsize() == 200
        assert get_all(q) == bodies(200)
        with pytest.raises(queue.Empty):
            q.get_nowait()
        with pytest.raises(queue.Empty):
            q.get(timeout=0)


@pytest.mark.parametrize("memory_bytes", [0, 2000, 1 << 20])
def test_the_order_is_kept_between_memory_and_pages(folder: Path, memory_bytes: int) -> None:
    numbers = itertools.count()
    found = []
    with open_queue(folder, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as q:
        for puts, gets in [(3, 1), (40, 10), (1, 33), (0, 5), (5, 0), (60, 65), (2, 1), (30, 31)]:
            for _ in range(puts):
                q.put(b"%06d" % next(numbers) * 20)
            for _ in range(min(gets, q.qsize())):
                message = q.get_nowait()
                found.append(message.body)
                q.ack(message)
        found += get_all(q)
    assert found == bodies(next(numbers))


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_unacknowledged_messages_are_redelivered_in_order_after_a_kill(folder: Path, memory_bytes: int) -> None:
    with open_queue(folder, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as q:
        for body in bodies(100):
            q.put(body)
        got = [q.get() for _ in range(60)]
        for message in got[:50:2]:
            q.ack(message)
        left = [message.body for message in got[1:50:2] + got[50:]] + bodies(40, first=60)
        with open_queue(copy_after_crash(folder)) as again:
            assert again.qsize() == again.unacknowledged_count == len(left)
            assert get_all(again) == left
    with open_queue(folder) as again:
        assert get_all(again) == left


def test_a_page_is_removed_with_its_last_acknowledgement(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        for body in bodies(300):
            q.put(body)
        assert page_count(folder) > 5
        get_all(q)
        q._manager.drain()
        assert page_count(folder) == 1
    with open_queue(folder) as q:
        assert q.empty()
        assert q.unacknowledged_count == 0
        q.put(b"more")
        assert get_all(q) == [b"more"]


def test_a_message_can_be_acknowledged_once(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        for body in bodies(300):
            q.put(body)
        first = q.get()
        q.ack(first)
        with pytest.raises(StateError):
            q.ack(first)
        get_all(q)
        q._manager.drain()
        with pytest.raises(GoneError):
            q.ack(first)


def test_a_returned_message_is_next(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        for body in bodies(3):
            q.put(body)
        q.nack(q.get())
        assert get_all(q) == bodies(3)


def test_invalid_modes_and_messages_are_rejected(folder: Path) -> None:
    with pytest.raises(ValueError, match="a queue has Mode"):
        open_queue(folder, mode=Mode.STAGE)
    with open_queue(folder) as q:
        with pytest.raises(ValueError, match="a queue has Mode"):
            q.put(b"", mode=Mode.STAGE)
        with pytest.raises(TypeError):
            q.put("text")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="timeout"):
            q.get(timeout=-1)
        q.put(bytearray(b"bytes"))  # type: ignore[arg-type]
        assert get_all(q) == [b"bytes"]


def test_a_queue_has_one_owner_and_refuses_a_forked_child(folder: Path) -> None:
    with open_queue(folder) as q:
        with pytest.raises(BusyError):
            open_queue(folder)
        for body in bodies(3):
            q.put(body)
        got = q.get()
        empty = q.transaction()
        calls: list[Callable[[], object]] = [
            q.get_nowait,  # two messages are in memory, also in that of the child
            lambda: q.get(timeout=1),
            lambda: q.put(b"child's"),
            lambda: q.ack(got),
            lambda: q.nack(got),
            q.qsize,
            q.empty,
            q.full,
            q.join,
            q.sync,
        ]

        def use_it() -> None:
            for call in calls:
                with pytest.raises(StateError):
                    call()
            empty.commit()  # an empty transaction does nothing
            q.close()

        Child(use_it).join()
        q.nack(got)
        assert get_all(q) == bodies(3)
