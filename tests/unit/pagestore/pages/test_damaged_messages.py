"""Damaged messages: they are reported, do not block others, and can be removed without a trace."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from binlog.errors import AccessError, CorruptError, NotFoundError, StateError
from binlog.format.pagestore.page import MESSAGE_PAGE
from binlog.pagestore import PageStore, check_page_store
from binlog.pagestore.pages.cache import PageFile
from tests.support.journals import flip
from tests.support.pagestores import QUEUE, SMALL, drain, page_store, peek, put, take

_BODY_AT = MESSAGE_PAGE.size
_NEXT_AT = MESSAGE_PAGE.offset("next") + 3


def _store_with_damage(path: Path, *bodies: bytes, message: int = 2, page: int = 0, at: int = _BODY_AT) -> int:
    """Create a store with a damaged page in one message, and return the page's number."""
    with page_store(path) as store:
        put(store, *bodies)
        number = store._content.get(QUEUE).index.entry(message, store._cache).message_page + page
    flip(path / "page.db", number * 2048 + at)
    return number


def test_a_damaged_message_does_not_block_others(tmp_path: Path) -> None:
    number = _store_with_damage(tmp_path, b"one", b"two", b"three")
    for _ in range(2):  # every opening reports it again
        with PageStore(tmp_path, SMALL) as store:
            transaction = store.transaction()
            first = transaction.get(QUEUE)
            with pytest.raises(CorruptError, match="message 2 of the queue 'orders' is skipped") as raised:
                transaction.get(QUEUE)
            third = transaction.get(QUEUE)
            assert first is not None
            assert third is not None
            assert (first.body, third.body, transaction.get(QUEUE)) == (b"one", b"three", None)
            assert (raised.value.offset, raised.value.rule) == (number * 2048, "page_crc")
            assert (store.unreadable(QUEUE), store.waiting_count(QUEUE)) == ([2], 0)
            transaction.rollback()
            assert peek(store) == [b"one", b"three"]
        assert [problem.offset for problem in check_page_store(tmp_path)] == [number * 2048]


def test_an_unreadable_message_does_not_block_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with page_store(tmp_path) as store:
        put(store, b"one", b"two")
        number = store._content.get(QUEUE).index.entry(1, store._cache).message_page
    read = PageFile.read

    def fails(file: PageFile, which: int) -> bytes:
        if which == number:
            raise AccessError("a bad sector", errno=errno.EIO, path=file.path)
        return read(file, which)

    with PageStore(tmp_path, SMALL) as store:
        monkeypatch.setattr(PageFile, "read", fails)
        with pytest.raises(AccessError):
            take(store)
        assert drain(store) == [b"two"]
        monkeypatch.undo()
        assert store.unreadable(QUEUE) == [1]
    with page_store(tmp_path) as store:
        assert drain(store) == [b"one"]


@pytest.mark.parametrize("page", [0, 1, 2])
def test_a_damaged_message_is_removed_with_all_its_pages(tmp_path: Path, page: int) -> None:
    _store_with_damage(tmp_path, b"one", os.urandom(5000), b"three", page=page)
    with page_store(tmp_path) as store:
        held = store.transaction()
        assert held.get(QUEUE) is not None
        with pytest.raises(CorruptError):
            held.get(QUEUE)
        held.rollback()
        assert store.unreadable(QUEUE) == [2]
        transaction = store.transaction()
        transaction.remove(QUEUE, 2)
        with pytest.raises(NotFoundError):
            store.transaction().remove(QUEUE, 2)
        assert store.unreadable(QUEUE) == []
        transaction.commit()
        assert drain(store) == [b"one", b"three"]
        assert store.shrink() == 2


def test_a_transaction_with_a_damaged_message_is_rolled_back(tmp_path: Path) -> None:
    _store_with_damage(tmp_path, b"one", b"two")
    with PageStore(tmp_path, SMALL) as store:
        transaction = store.transaction()
        transaction.remove(QUEUE, 2)
        transaction.rollback()
        assert take(store) is not None
        for _ in range(2):
            with pytest.raises(CorruptError):
                take(store)
            assert take(store) is None
            with store.transaction() as transaction:
                transaction.remove(QUEUE, 2)
                transaction.rollback()


def test_a_page_that_a_damaged_page_names_wrongly_is_kept_and_reported(tmp_path: Path) -> None:
    number = _store_with_damage(tmp_path, b"one", os.urandom(5000), b"three", page=0, at=_NEXT_AT)
    with PageStore(tmp_path, SMALL) as store:
        with store.transaction() as transaction:
            transaction.remove(QUEUE, 2)
        assert drain(store) == [b"one", b"three"]
    assert [(problem.offset, problem.rule) for problem in check_page_store(tmp_path)] == [
        ((number + 1) * 2048, "lost"),
        ((number + 2) * 2048, "lost"),
    ]


def test_a_queue_with_a_damaged_message_is_deleted(tmp_path: Path) -> None:
    _store_with_damage(tmp_path, b"one", os.urandom(5000))
    with page_store(tmp_path) as store:
        held = store.transaction()
        assert held.get(QUEUE) is not None
        with pytest.raises(CorruptError):
            take(store)
        with pytest.raises(StateError):
            store.delete_queue(QUEUE)
        held.rollback()
        store.delete_queue(QUEUE)
        assert store.shrink() == 1
        store.create_queue(QUEUE)
