"""A queue with a limit on its pages, or on a full disk."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import resource
import signal
import threading
from pathlib import Path

import pytest

from binlog import Mode
from binlog.compose import open_queue
from binlog.errors import FullError
from binlog.format.paging.names import PAGE_EXTENSION
from binlog.paging.options import PagingOptions, Policy
from binlog.queue.queue import Queue
from tests.support.failing import raising
from tests.support.queues import SECONDS, SMALL, bodies, get_all


def test_a_queue_is_full_until_a_page_is_removed(folder: Path) -> None:
    options = PagingOptions(page_bytes=4096, page_count_max=2)
    with open_queue(folder, mode=Mode.FLUSH, options=options) as q:
        put = 0
        with contextlib.suppress(queue.Full):
            for body in bodies(1000):
                q.put_nowait(body)
                put += 1
        assert put < 1000
        assert q.full()
        last = b"last" * 30
        with pytest.raises(queue.Full):
            q.put(last, timeout=0)
        waiting = threading.Thread(target=q.put, args=(last,))
        waiting.start()
        found: list[bytes] = []
        while found[-1:] != [last]:
            message = q.get()
            found.append(message.body)
            q.ack(message)
        waiting.join()
        assert found == [*bodies(put), last]


@pytest.mark.parametrize(
    "options", [PagingOptions(page_count_max=1), PagingOptions(page_count_max=9, full_policy=Policy.DROP)]
)
def test_a_queue_rejects_options_that_lose_messages_or_block_for_ever(folder: Path, options: PagingOptions) -> None:
    with pytest.raises(ValueError, match="a queue"):
        open_queue(folder, options=options)


def test_a_full_disk_refuses_one_message_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        with monkeypatch.context() as patched:
            patched.setattr(q, "_append", raising(FullError("no space left")))
            with pytest.raises(FullError):
                q.put(b"one")
        q.put(b"two")
        assert get_all(q) == [b"two"]


def _fill(q: Queue) -> int:
    put = 0
    with contextlib.suppress(queue.Full):
        while True:
            q.put_nowait(b"%06d" % put * 20)
            put += 1
    return put


def test_a_removed_page_does_not_turn_a_full_queue_into_a_full_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=PagingOptions(page_bytes=4096, page_count_max=2)) as q:
        got = [q.get() for _ in range(_fill(q))]
        append = q._append

        def gone(message: bytes) -> int | None:
            try:
                return append(message)
            except FullError:
                while got:
                    q._cursor.ack(got.pop().message_id)
                q._manager.drain()
                assert not q.full()
                raise

        monkeypatch.setattr(q, "_append", gone)
        q.put(b"last" * 30, timeout=SECONDS)
        assert get_all(q) == [b"last" * 30]


def test_a_full_disk_is_reported_even_if_the_queue_is_full(folder: Path) -> None:
    options = PagingOptions(page_bytes=4096, page_count_max=2)
    with open_queue(folder, mode=Mode.FLUSH, options=options) as q:
        while q._store.page_count < 2:
            q.put(b"message")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        (last,) = q._store.pages[1:]
        held = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(last.path) + 1, limits[1]))
        try:
            with pytest.raises(FullError):
                q.put(b"message", timeout=0)
            with pytest.raises(FullError), q.transaction() as transaction:
                transaction.put(b"message")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, held)
        q.put(b"message", timeout=0)


def test_an_interrupted_put_that_waited_loses_no_message(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=PagingOptions(page_bytes=4096, page_count_max=2)) as q:
        append = q._append
        tries = itertools.count()

        def interrupted(message: bytes) -> int | None:
            if next(tries) == 0:
                raise FullError("there may be no more pages", limit=1)
            append(message)
            raise KeyboardInterrupt

        monkeypatch.setattr(q, "_append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            q.put(b"one")
        monkeypatch.undo()
        q.put(b"two")
        assert get_all(q) == [b"one", b"two"]


def test_a_transaction_without_room_for_pages_raises_full(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=PagingOptions(page_bytes=4096, page_count_max=2)) as q:
        put = _fill(q)
        transaction = q.transaction()
        transaction.put(b"last" * 30)
        with pytest.raises(queue.Full):
            transaction.commit()
        assert get_all(q) == [b"%06d" % number * 20 for number in range(put)]
        q._manager.drain()
        transaction.commit()
        assert get_all(q) == [b"last" * 30]


def test_a_closed_page_respects_page_bytes(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        for number in range(400):
            q.put(b"m" * (number % 97))
    sizes = [page.stat().st_size for page in folder.glob(f"*/*{PAGE_EXTENSION}")]
    assert len(sizes) > 5
    assert max(sizes) <= SMALL.page_bytes
