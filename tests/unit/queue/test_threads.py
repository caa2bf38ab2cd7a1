"""Threads that wait for a queue or share one."""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from binlog import Mode
from binlog.compose import open_queue
from binlog.errors import ClosedError
from tests.support.queues import SMALL, bodies, get_all
from tests.support.threads import at_once


def test_a_waiting_get_returns_a_new_message(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        found: list[bytes] = []

        def take() -> None:
            message = q.get()
            found.append(message.body)
            q.ack(message)

        def put() -> None:
            for body in bodies(2):
                q.put(body)
            with q.transaction() as transaction:
                for body in bodies(2, first=2):
                    transaction.put(body)

        at_once(*[take] * 4, put)
        q.join()
        assert sorted(found) == bodies(4)


def test_a_waiting_get_raises_when_the_queue_is_closed(folder: Path) -> None:
    q = open_queue(folder)
    errors: list[type[BaseException]] = []

    def wait(call: Callable[[], object]) -> None:
        try:
            call()
        except ClosedError as error:
            errors.append(type(error))

    q.put(b"one")
    q.get()
    at_once(partial(wait, q.get), partial(wait, q.join), q.close)
    assert errors == [ClosedError] * 2
    for call in (q.get, q.qsize, q.join, lambda: q.put(b"")):
        with pytest.raises(ClosedError):
            call()
    q.close()


def test_a_reading_get_raises_when_the_queue_is_closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        q.put(b"one")
    q = open_queue(folder)
    read = q._cursor.read

    def behind() -> object:
        q.close()
        return read()

    monkeypatch.setattr(q._cursor, "read", behind)
    with pytest.raises(ClosedError):
        q.get()


@pytest.mark.slow
@pytest.mark.parametrize("memory_bytes", [0, 3000, 1 << 20])
def test_threads_get_each_message_once_and_each_producer_in_order(folder: Path, memory_bytes: int) -> None:
    producers, each = 4, 300
    got: list[list[tuple[int, int]]] = [[], [], []]
    with open_queue(folder, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as q:

        def produce(producer: int) -> None:
            for number in range(0, each, 3):
                q.put(b"%d %d" % (producer, number))
                with q.transaction() as transaction:
                    transaction.put(b"%d %d" % (producer, number + 1))
                    transaction.put(b"%d %d" % (producer, number + 2))

        def consume(found: list[tuple[int, int]]) -> None:
            while (message := q.get()).body:
                producer, number = map(int, message.body.split())
                found.append((producer, number))
                q.ack(message)
            q.ack(message)

        def produce_all() -> None:
            at_once(*(partial(produce, number) for number in range(producers)))
            for _ in got:
                q.put(b"")

        at_once(produce_all, *(partial(consume, found) for found in got))
        assert q.unacknowledged_count == 0
    for found in got:
        for producer in range(producers):
            numbers = [number for who, number in found if who == producer]
            assert numbers == sorted(numbers)
    assert sorted(itertools.chain(*got)) == [(who, number) for who in range(producers) for number in range(each)]


def test_an_interrupted_put_loses_no_message(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        q.put(b"one")
        assert q.get().body == b"one"
        with pytest.raises(queue.Empty):
            q.get_nowait()
        q.put(b"two")
        append = q._append

        def interrupted(message: bytes) -> int | None:
            append(message)
            raise KeyboardInterrupt

        q._append = interrupted  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            q.put(b"three")
        q._append = append
        q.put(b"four")
        assert get_all(q) == [b"two", b"three", b"four"]
