"""Prepared transactions, and shared messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.errors import NotFoundError, StateError
from binlog.pagestore import PageStore, Transaction, Xid, check_page_store, parse_xid
from binlog.pagestore.transaction import State
from tests.support.pagestores import QUEUE, SMALL, copy_after_kill, drain, page_store, peek, put, take

XID = Xid(1, b"global", b"branch")


def _prepare_transaction(store: PageStore) -> Transaction:
    put(store, b"one", b"two", b"three")
    transaction = store.transaction()
    transaction.get(QUEUE)
    transaction.put(QUEUE, b"four")
    transaction.prepare(XID)
    return transaction


def test_messages_of_a_prepared_transaction_stay_taken_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with page_store(path) as store:
        _prepare_transaction(store)
        assert peek(store) == [b"two", b"three"]
        copies = [copy_after_kill(store) for _ in range(2)]
        (found,) = store.prepared
        assert (found.xid, found.puts, found.gets) == (XID, ((QUEUE, 4),), ((QUEUE, 1),))
    for path, commits in zip([*copies, tmp_path / "store"], (True, False, True), strict=True):
        assert check_page_store(path) == []
        for _ in range(2):  # opening it changes nothing of that
            with PageStore(path, SMALL) as store:
                assert store.prepared == [found]
                assert peek(store) == [b"two", b"three"]
                assert store.queues == [QUEUE]
                with pytest.raises(StateError):
                    store.delete_queue(QUEUE)
        with PageStore(path, SMALL) as store:
            (store.commit_prepared if commits else store.rollback_prepared)(XID)
            wanted = [b"two", b"three", b"four"] if commits else [b"one", b"two", b"three"]
            assert peek(store) == wanted
            assert store.prepared == []
            again = copy_after_kill(store)
        assert check_page_store(path) == []
        with PageStore(again, SMALL) as store:
            assert store.prepared == []
            message = take(store)
            assert message is not None
            assert message.body == wanted[0]
            assert message.delivery_count >= (0 if commits else 1)


@pytest.mark.parametrize("end", [Transaction.commit, Transaction.rollback])
def test_a_prepared_transaction_can_be_ended_by_its_own_object(
    tmp_path: Path, end: Callable[[Transaction], None]
) -> None:
    with page_store(tmp_path) as store:
        transaction = _prepare_transaction(store)
        with pytest.raises(StateError):
            transaction.put(QUEUE, b"")
        with pytest.raises(StateError):
            transaction.prepare(XID)
        end(transaction)
        assert transaction.state is not State.PREPARED
        assert peek(store) == ([b"two", b"three", b"four"] if end is Transaction.commit else [b"one", b"two", b"three"])
        with pytest.raises(StateError):
            end(transaction)


def test_two_prepared_transactions_cannot_share_a_name(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        _prepare_transaction(store)
        other = store.transaction()
        other.put(QUEUE, b"other")
        with pytest.raises(StateError, match="another prepared transaction"):
            other.prepare(XID)
        for wrong in (Xid(1 << 31, b""), Xid(0, bytes(65)), Xid(0, b"", bytes(65))):
            with pytest.raises(ValueError, match="64 bytes"):
                other.prepare(wrong)
        other.prepare(XID._replace(branch=b""))
        empty = store.transaction()
        empty.prepare(Xid(2, b""))
        assert [str(each.xid) for each in store.prepared] == ["1:676c6f62616c:6272616e6368", "1:676c6f62616c:", "2::"]
        assert [parse_xid(str(each.xid)) for each in store.prepared] == [each.xid for each in store.prepared]
    with PageStore(tmp_path, SMALL) as store:
        for each in store.prepared:
            store.commit_prepared(each.xid)
        for end in (store.commit_prepared, store.rollback_prepared):
            with pytest.raises(NotFoundError):
                end(XID)
        assert drain(store) == [b"two", b"three", b"four", b"other"]


@pytest.mark.parametrize("text", ["", "1:2", "x::", "1:zz:", f"1:{'00' * 65}:", "9999999999::"])
def test_an_invalid_xid_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"xid|64 bytes"):
        parse_xid(text)


def test_the_queue_of_prepared_transactions_is_reserved(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        _prepare_transaction(store)
        transaction = store.transaction()
        for call in (transaction.get, store.waiting_count, store.delete_queue):
            with pytest.raises(NotFoundError):
                call("sys$prepared")
        with pytest.raises(NotFoundError):
            transaction.put("sys$prepared", b"")
        with pytest.raises(ValueError, match="prepared"):
            store.create_queue("sys$prepared")


def _used_page_count(store: PageStore) -> int:
    return store._free.page_count - store._free.free_count


def test_a_shared_message_is_stored_once_until_its_last_removal(tmp_path: Path) -> None:
    names = [f"subscriber-{number}" for number in range(10)]
    with page_store(tmp_path) as store:
        for name in names:
            store.create_queue(name)
        before = _used_page_count(store)
        with store.transaction() as transaction:
            transaction.put_shared(names, bytes(5000))
            transaction.put_shared(names[:2], b"for two")
        assert _used_page_count(store) == before + 3 + 1
        assert drain(store, names[0]) == [bytes(5000), b"for two"]
        assert _used_page_count(store) == before + 4
    for name in names[1:9]:
        with page_store(tmp_path) as store:
            assert drain(store, name)[0] == bytes(5000)
            assert _used_page_count(store) == before + 3
    with page_store(tmp_path) as store:
        copy = copy_after_kill(store)
        assert drain(store, names[9]) == [bytes(5000)]
        assert _used_page_count(store) == before
    with PageStore(copy, SMALL) as store:
        store.delete_queue(names[9])
        assert _used_page_count(store) == before - 1
    assert check_page_store(copy) == []


def test_one_transaction_removes_a_shared_message_from_all_queues(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        store.create_queue("other")
        before = _used_page_count(store)
        for _ in range(3):
            with store.transaction() as transaction:
                transaction.put_shared([QUEUE, "other"], b"shared")
            with store.transaction() as transaction:
                assert transaction.get("other") is not None
                assert transaction.get(QUEUE) is not None
            assert _used_page_count(store) == before
        transaction = store.transaction()
        for wrong in ([], [QUEUE, QUEUE]):
            with pytest.raises(ValueError, match="name at least one queue"):
                transaction.put_shared(wrong, b"")
        with pytest.raises(NotFoundError):
            transaction.put_shared([QUEUE, "another"], b"")


def test_a_prepared_transaction_can_have_shared_messages(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        store.create_queue("other")
        transaction = store.transaction()
        transaction.put_shared([QUEUE, "other"], b"shared")
        transaction.prepare(XID)
        copy = copy_after_kill(store)
        store.commit_prepared(XID)
        assert drain(store) == drain(store, "other") == [b"shared"]
    with PageStore(copy, SMALL) as store:
        store.rollback_prepared(XID)
        assert drain(store) == drain(store, "other") == []
        assert _used_page_count(store) == 1 + 3
    assert check_page_store(copy) == []
