"""Redelivery: delays, delivery counts that survive the process, and dead letters."""

from __future__ import annotations

import errno
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog import Mode, open_queue
from binlog.errors import ClosedError, PoisonedError, StateError
from binlog.format.paging.deliveries_file import (
    DELIVERIES_HEADER,
    DELIVERY,
    delivery_offset,
    pack_deliveries_header,
    pack_delivery,
    parse_deliveries,
)
from binlog.format.paging.names import DELIVERIES_EXTENSION
from binlog.paging.cursor import page_deliveries
from binlog.paging.inspection import check_paging, read_delivery_counts, stat_paging
from binlog.queue.queue import Queue
from binlog.storage.native import write_delivery
from binlog.storage.redelivery import retry_delay
from tests.support.children import killed_after
from tests.support.journals import flip
from tests.support.paging import copy_after_crash
from tests.support.queues import SECONDS, SMALL, bodies, get_all


def _run_and_kill(folder: Path, work: Callable[[Queue], object]) -> None:
    """Run a process that opens the queue, does something, and is killed."""
    killed_after(lambda: work(open_queue(folder, mode=Mode.FLUSH, options=SMALL, deliveries_max=5)))


def _filled_queue(folder: Path, count: int) -> Path:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        for body in bodies(count):
            q.put(body)
    return folder


def test_a_message_returned_repeatedly_does_not_block_others(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        for body in bodies(2):
            q.put(body)
        poison = q.get()
        found: list[bytes] = []
        while len(found) < 1:
            q.nack(poison)
            got = q.get(timeout=SECONDS)
            if got.message_id == poison.message_id:
                poison = got
            else:
                found.append(got.body)
        assert found == bodies(2)[1:]
        assert poison.delivery_count == 1
        assert q.qsize() == 1
        with pytest.raises(queue.Empty):
            q.get(timeout=0.001)
        assert q.get(timeout=SECONDS).delivery_count == 2


def test_the_delay_doubles_up_to_a_minute() -> None:
    delays = [retry_delay(count) for count in range(1, 40)]
    assert delays[:4] == [0.0, 0.1, 0.2, 0.4]
    assert delays[-1] == 60.0
    assert delays == sorted(delays)


@pytest.mark.slow
def test_a_waiting_get_wakes_when_a_delay_ends(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        q.put(b"later")
        got = q.get()
        found: list[tuple[float, int]] = []

        def wait() -> None:
            message = q.get(timeout=SECONDS)
            found.append((time.monotonic(), message.delivery_count))

        waiting = threading.Thread(target=wait)
        waiting.start()
        began = time.monotonic()
        q.nack(got, delay=0.2)
        assert q.empty()
        assert q.qsize() == q.unacknowledged_count == 1
        waiting.join()
        ((at, count),) = found
        assert at - began >= 0.2
        assert count == 1
        for wrong in (-1, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="delay"):
                q.nack(got, delay=wrong)


def test_returned_messages_come_in_the_order_of_their_delays(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        for body in bodies(3):
            q.put(body)
        first, second, third = q.get(), q.get(), q.get()
        q.nack(first, delay=0.02)
        q.nack(second, delay=0.01)
        q.nack(third, delay=0)
        assert [q.get(timeout=SECONDS).message_id for _ in range(3)] == [
            third.message_id,
            second.message_id,
            first.message_id,
        ]


@pytest.mark.slow
def test_a_message_that_kills_its_process_becomes_a_dead_letter(folder: Path) -> None:
    _filled_queue(folder, 100)
    for count in range(5):
        _run_and_kill(folder, lambda q: q.get())
        assert check_paging(folder) == []
        assert read_delivery_counts(folder, "queue") == {(1, 0): count + 1}
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL, deliveries_max=5) as q:
        got = q.get()
        assert (got.body, got.delivery_count) == (bodies(100)[1], 0)
        q.ack(got)
        dead = q.dead_letters.get(timeout=SECONDS)
        assert (dead.body, dead.delivery_count) == (bodies(1)[0], 0)
        assert q.unacknowledged_count == 98
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL, deliveries_max=5) as q:
        assert get_all(q) == bodies(98, first=2)
        assert get_all(q.dead_letters) == bodies(1)
    assert check_paging(folder) == []


@pytest.mark.slow
def test_each_message_keeps_its_count_through_kills(folder: Path) -> None:
    _filled_queue(folder, 200)

    def work(q: Queue) -> None:
        for number in range(120):
            got = q.get()
            if number % 3 == 0:
                q.nack(got, delay=0)
                q.get()
            if number % 2 == 0:
                q.ack(got)

    _run_and_kill(folder, work)
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        found = {}
        while not q.empty():
            got = q.get()
            found[got.body] = got.delivery_count
    expected = {
        body: 0 if number >= 120 else 1 + (number % 3 == 0)
        for number, body in enumerate(bodies(200))
        if number >= 120 or number % 2
    }
    assert found == expected


def test_the_last_nack_makes_a_message_a_dead_letter(folder: Path) -> None:
    with open_queue(folder, deliveries_max=2) as q:
        q.put(b"poison")
        q.put(b"other")
        q.nack(q.get())
        assert q.dead_letters.empty()
        q.nack(q.get())
        assert q.get().body == b"other"
        assert q.dead_letters.qsize() == 1
        died = copy_after_crash(folder)
    with open_queue(died, deliveries_max=2) as q:
        dead = q.dead_letters
        assert get_all(dead) == [b"poison"]
        assert get_all(q) == [b"other"]
        with pytest.raises(StateError):
            _ = dead.dead_letters
    with pytest.raises(ClosedError):
        dead.get()
    with pytest.raises(ValueError, match="deliveries_max"):
        open_queue(folder, deliveries_max=0)


def test_a_kill_during_the_move_to_dead_letters_leaves_one_message(folder: Path) -> None:
    with open_queue(folder, deliveries_max=1) as q:
        q.put(b"poison")
        q.nack(q.get())
    for _ in range(2):
        with open_queue(folder, deliveries_max=1) as q:
            assert q.empty()
            assert q.dead_letters.unacknowledged_count == 1


def test_counts_are_removed_with_their_page(folder: Path) -> None:
    _filled_queue(folder, 200)
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        assert get_all(q) == bodies(200)
        q._manager.drain()
        assert list(folder.rglob(f"*{DELIVERIES_EXTENSION}")) == []
    left = next(folder.glob("*/address.txt")).parent / f"000000099{DELIVERIES_EXTENSION}"
    left.write_bytes(b"of a page that has gone")
    with open_queue(folder, options=SMALL):
        assert not left.exists()


@pytest.mark.parametrize("at", [0, DELIVERIES_HEADER.size - 1, delivery_offset(0), delivery_offset(0) + 7])
@pytest.mark.slow
def test_a_damaged_count_is_reported_and_ignored(folder: Path, at: int) -> None:
    _filled_queue(folder, 3)
    _run_and_kill(folder, lambda q: (q.get(), q.get()))
    (file,) = folder.rglob(f"*{DELIVERIES_EXTENSION}")
    flip(file, at)
    rules = {problem.rule for problem in check_paging(folder)}
    assert rules == {"deliveries_header" if at < DELIVERIES_HEADER.size else "delivery_crc"}
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        counts = [q.get().delivery_count for _ in range(3)]
    assert counts == ([0, 0, 0] if at < DELIVERIES_HEADER.size else [0, 1, 0])
    assert check_paging(folder) == []
    (page,) = stat_paging(folder).addresses[0].pages
    assert page.deliveries == {0: 1, 1: counts[1] + 1, 2: 1}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_does_not_stop_delivery(folder: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        for body in bodies(2):
            q.put(body)
        q.get()
        with monkeypatch.context() as patched:
            patched.setattr(page_deliveries, "write_delivery", lambda *_: number)
            if number == errno.ENOSPC:
                assert q.get().body == bodies(2)[1]
                return
            with pytest.raises(PoisonedError):
                q.get()
        with pytest.raises(PoisonedError):
            q.get()
        with pytest.raises(PoisonedError):
            q.close()


def test_qsize_is_right_after_opening_again(folder: Path) -> None:
    _filled_queue(folder, 300)
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        for number in range(150):
            got = q.get()
            if number % 2:
                q.ack(got)
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        left = 225
        while left:
            assert q.qsize() == left
            q.get()
            left -= 1
        assert q.qsize() == 0


@given(st.binary(min_size=8, max_size=8), st.lists(st.tuples(st.integers(0, 300), st.integers(1, 2**32 - 1))))
def test_the_compiled_function_matches_the_format(salt: bytes, given_: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(pack_deliveries_header(7, salt))
        for number, count in given_:
            assert write_delivery(file.fileno(), salt, number, count) == 0
            file.seek(delivery_offset(number))
            assert file.read(DELIVERY.size) == pack_delivery(number, count, salt)
        file.seek(0)
        found = parse_deliveries(file.read(), 7, salt, "a file")
    assert (found.counts, found.problems) == (dict(given_), [])
    with pytest.raises(ValueError, match="salt"):
        write_delivery(-1, b"short", 0, 1)
