"""Transactions of a queue: atomicity and order."""

from __future__ import annotations

import contextlib
import queue
import threading
from pathlib import Path

import pytest

from binlog import Mode
from binlog.compose import open_queue
from binlog.errors import FullError, StateError
from binlog.paging.page_transaction import PageTransaction
from binlog.queue.queue import Queue
from tests.support.failing import raising
from tests.support.paging import copy_after_crash
from tests.support.queues import SECONDS, SMALL, bodies, get_all


@pytest.mark.slow
def test_a_transaction_is_atomic(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        q.put(b"before")
        got = q.get()
        with q.transaction() as transaction:
            transaction.ack(got)
            for body in bodies(100):
                transaction.put(body)
            assert q.empty()
            with open_queue(copy_after_crash(folder)) as again:
                assert get_all(again) == [b"before"]
        q.put(b"behind")
        with open_queue(copy_after_crash(folder)) as again:
            assert get_all(again) == [*bodies(100), b"behind"]
        assert get_all(q) == [*bodies(100), b"behind"]
    with open_queue(folder) as again:
        assert again.empty()
        with pytest.raises(queue.Empty):
            again.get_nowait()
        again._manager.drain()
        assert not again._manager.transactions.counts, "transaction records are deleted with their pages"


def test_a_rollback_changes_nothing(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        q.put(b"before")
        got = q.get()
        transaction = q.transaction()
        with contextlib.suppress(ZeroDivisionError), transaction:
            transaction.ack(got)
            transaction.put(b"never")
            raise ZeroDivisionError
        with pytest.raises(StateError):
            transaction.put(b"never")
        q.nack(got)
        assert get_all(q) == [b"before"]


def test_a_transaction_with_a_message_acknowledged_elsewhere_does_nothing(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        q.put(b"one")
        got = q.get()
        transaction = q.transaction()
        transaction.ack(got)
        with pytest.raises(StateError):
            transaction.ack(got)
        transaction.put(b"never")
        q.ack(got)
        with pytest.raises(StateError):
            transaction.commit()
        q.put(b"two")
        assert get_all(q) == [b"two"]
    with open_queue(folder) as q:
        assert q.empty()


def test_a_transaction_without_room_can_be_retried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        q.put(b"before")
        got = q.get()
        transaction = q.transaction()
        transaction.ack(got)
        transaction.put(b"after")

        with monkeypatch.context() as patched:
            patched.setattr(q._store, "append", raising(FullError("no space left")))
            with pytest.raises(FullError):
                transaction.commit()
        assert q.empty()
        transaction.commit()
        with pytest.raises(StateError):
            transaction.commit()
        assert get_all(q) == [b"after"]
    with open_queue(folder) as q:
        assert q.empty()


def test_an_interruption_after_a_commit_undoes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        transaction = q.transaction()
        transaction.put(b"one")
        commit = PageTransaction.commit

        def interrupted(self: PageTransaction) -> None:
            commit(self)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(PageTransaction, "commit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                transaction.commit()
        with pytest.raises(StateError):
            transaction.commit()
        q.put(b"two")
        assert get_all(q) == [b"one", b"two"]


def _start_join(q: Queue) -> threading.Thread:
    thread = threading.Thread(target=q.join, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_join_ends_if_uncommitted_messages_come_last(folder: Path, memory_bytes: int) -> None:
    with open_queue(folder, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as q:
        q.put(b"one")
        got = q.get()
        transaction = q.transaction()
        transaction.put(b"never")
        transaction.ack(got)
        q.ack(got)
        with pytest.raises(StateError):
            transaction.commit()
        joining = _start_join(q)
        joining.join(SECONDS)
        assert not joining.is_alive()
        q.put(b"two")
        open_one = q._manager.begin()
        for _ in range(3):
            q._store.append(bytes(4000), open_one)  # each has a page
        died = copy_after_crash(folder)
        open_one.rollback()
        q.ack(q.get())
    with open_queue(died, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as again:
        message = again.get()
        assert message.body == b"two"
        joining = _start_join(again)
        again.ack(message)
        joining.join(SECONDS)
        assert not joining.is_alive()
