from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from binlog.errors import NotFoundError, StateError
from binlog.pagestore import PageStore, PageStoreOptions, Transaction, check_page_store
from binlog.storage.mode import Mode
from tests.support.interruptions import slow_after
from tests.support.pagestores import QUEUE, contents_after_kill, drain, page_store, peek, put, take
from tests.support.threads import at_once
from tests.support.waiting import until


def test_committed_messages_come_in_order(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        transaction = store.transaction()
        transaction.put(QUEUE, b"first")
        transaction.put(QUEUE, b"")
        assert transaction.get(QUEUE) is None
        assert take(store) is None
        transaction.commit()
        put(store, b"third")
        assert store.waiting_count(QUEUE) == 3
        assert drain(store) == [b"first", b"", b"third"]
        assert take(store) is None


def test_messages_come_by_priority_and_then_by_key(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        with store.transaction() as transaction:
            for number, priority in enumerate([4, 9, 0, 9, 4, 5]):
                transaction.put(QUEUE, b"%d" % number, priority=priority, expiration=number)
        found = [take(store) for _ in range(2)]
        assert [(m.body, m.priority, m.key, m.expiration) for m in found if m] == [(b"1", 9, 2, 1), (b"3", 9, 4, 3)]
        with store.transaction() as transaction:
            transaction.put(QUEUE, b"6", priority=5)
        assert drain(store) == [b"5", b"6", b"0", b"4", b"2"]


@pytest.mark.parametrize("size", [0, 1, 2018, 2019, 2020, 4038, 100_000])
def test_messages_of_any_size_round_trip(tmp_path: Path, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    with page_store(tmp_path / "store") as store:
        put(store, body[:size])
        assert contents_after_kill(store) == {QUEUE: [body[:size]]}
    with page_store(tmp_path / "store") as store:
        assert drain(store) == [body[:size]]


def test_a_rolled_back_message_is_redelivered_with_its_count(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        put(store, b"one", b"two")
        for count in range(3):
            transaction = store.transaction()
            message = transaction.get(QUEUE)
            assert message is not None
            assert (message.body, message.delivery_count) == (b"one", count)
            transaction.put(QUEUE, b"never")
            transaction.rollback()
        assert store.waiting_count(QUEUE) == 2
    with page_store(tmp_path) as store:
        message = take(store)
        assert message is not None
        assert (message.body, message.delivery_count) == (b"one", 3)
        assert drain(store) == [b"two"]


def test_a_block_that_raises_is_rolled_back(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        put(store, b"one")
        with pytest.raises(ZeroDivisionError), store.transaction() as transaction:  # noqa: PT012
            transaction.put(QUEUE, b"two")
            transaction.get(QUEUE)
            raise ZeroDivisionError
        assert drain(store) == [b"one"]


def test_a_message_is_removed_by_its_key(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        put(store, b"one", b"two", b"three")
        transaction = store.transaction()
        transaction.remove(QUEUE, 2)
        with pytest.raises(NotFoundError):
            store.transaction().remove(QUEUE, 2)
        with pytest.raises(NotFoundError):
            transaction.remove(QUEUE, 4)
        assert peek(store) == [b"one", b"three"]
        transaction.commit()
        with pytest.raises(NotFoundError):
            store.transaction().remove(QUEUE, 2)
        assert drain(store) == [b"one", b"three"]


def test_an_ended_transaction_refuses_every_call(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        for end in (Transaction.commit, Transaction.rollback):
            transaction = store.transaction()
            end(transaction)
            for call in (
                partial(transaction.put, QUEUE, b""),
                partial(transaction.get, QUEUE),
                partial(transaction.remove, QUEUE, 1),
                transaction.commit,
                transaction.rollback,
            ):
                with pytest.raises(StateError):
                    call()


def test_messages_of_a_garbage_collected_transaction_are_returned(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        put(store, b"one", b"two")
        store.transaction().get(QUEUE)
        assert drain(store) == [b"one", b"two"]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with page_store(tmp_path) as store, store.transaction() as transaction:
        for arguments in ({"priority": -1}, {"priority": 10}, {"expiration": -1}, {"expiration": 1 << 63}):
            with pytest.raises(ValueError, match="priority"):
                transaction.put(QUEUE, b"", **arguments)
        with pytest.raises(TypeError):
            transaction.put(QUEUE, "text")  # type: ignore[arg-type]
        for call in (transaction.get, store.waiting_count, store.delete_queue):
            with pytest.raises(NotFoundError):
                call("another")
        with pytest.raises(NotFoundError):
            transaction.put("another", b"")
        with pytest.raises(ValueError, match="name"):
            store.create_queue("")
        with pytest.raises(ValueError, match=r"Mode\.SYNC and Mode\.FLUSH"):
            transaction.commit(mode=Mode.STAGE)
        transaction.commit()
    for options in ({"page_bytes": 1000}, {"cache_pages": 1}, {"log_bytes": 0}, {"mode": Mode.STAGE}):
        with pytest.raises(ValueError, match="invalid page store options"):
            PageStoreOptions(**options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_threads_move_messages_without_loss_or_duplicates(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        store.create_queue("paid")
        bodies = [b"%d" % number for number in range(200)]
        moved: list[bytes] = []

        def produce(part: int) -> None:
            for body in bodies[part::4]:
                put(store, body)

        def move() -> None:
            while len(moved) < len(bodies):
                with store.transaction() as transaction:
                    message = transaction.get(QUEUE)
                    if message is not None:
                        transaction.put("paid", message.body)
                        moved.append(message.body)

        at_once(*(partial(produce, part) for part in range(4)), *[move] * 4)
        assert sorted(drain(store, "paid")) == sorted(bodies)


@pytest.mark.slow
@pytest.mark.slow
def test_a_queue_that_is_deleted_leaves_nothing(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        store.create_queue("paid")
        put(store, *(b"%d" % number for number in range(2500)))
        put(store, b"stays", queue="paid")
        held = store.transaction()
        held.get(QUEUE)
        with pytest.raises(StateError):
            store.delete_queue(QUEUE)
        late = store.transaction()
        late.put(QUEUE, b"too late")
        held.rollback()
        store.delete_queue(QUEUE)
        with pytest.raises(NotFoundError):
            late.commit()
        assert store.queues == ["paid"]
        assert store._free.page_count - store._free.free_count == 3
        assert store.create_queue(QUEUE)
        assert not store.create_queue(QUEUE)
        late.commit()
        assert drain(store) == [b"too late"]
        assert drain(store, "paid") == [b"stays"]


def test_a_flushed_commit_survives_a_kill_and_a_checkpoint_syncs_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with page_store(path, PageStoreOptions(mode=Mode.FLUSH, cache_pages=8, log_bytes=8192)) as store:
        for number in range(100):
            put(store, b"%d" % number * 100)
        assert len(contents_after_kill(store)[QUEUE]) == 100
        with store.transaction() as transaction:
            transaction.put(QUEUE, b"synced")
            transaction.commit(mode=Mode.SYNC)
        assert store._log.durable == store._log.end


@pytest.mark.slow
def test_a_flushed_commit_is_synced_soon_even_after_a_late_one(tmp_path: Path) -> None:
    """Regression: the log's thread synced the earlier record before the appending thread noted that it had rung."""
    with page_store(tmp_path / "store", PageStoreOptions(mode=Mode.FLUSH)) as store:
        until(lambda: not store._log.worker.is_notified)
        with slow_after("put", 0.3):
            put(store, b"late")
        until(lambda: store._log.durable == store._log.end)
        put(store, b"next")
        until(lambda: store._log.durable == store._log.end)


def test_equal_messages_of_one_transaction_are_stored_once(tmp_path: Path) -> None:
    """It keeps its order in each queue; if one queue gets it twice, it is stored twice."""
    body, other = b"b" * 50_000, b"between"
    with PageStore(tmp_path / "one") as store:
        store.create_queue("a")
        with store.transaction() as transaction:
            transaction.put("a", body)
        once = store._free.page_count - store._free.free_count
    with PageStore(tmp_path / "s") as store:
        for name in ("a", "b", "c"):
            store.create_queue(name)
        with store.transaction() as transaction:
            transaction.put("a", body)
            transaction.put("b", other)
            transaction.put("b", bytes(bytearray(body)), priority=4)
            transaction.put_shared(("c",), body)
            transaction.put("a", body)
        used = store._free.page_count - store._free.free_count
        assert once * 2 - 3 < used < once * 2 + 6  # twice, not four times
        assert check_page_store(tmp_path / "s") == []
        found: dict[str, list[bytes]] = {}
        for name in ("a", "b", "c"):
            with store.transaction() as transaction:
                while (message := transaction.get(name)) is not None:
                    found.setdefault(name, []).append(message.body)
            assert check_page_store(tmp_path / "s") == []
        assert found == {"a": [body, body], "b": [other, body], "c": [body]}
        assert store._free.page_count - store._free.free_count < 10
