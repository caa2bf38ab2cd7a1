"""Half messages that a RocketMQ broker checked, and so copied: each is one transaction, committed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.store import MessageStore
from binlog.errors import StateError
from binlog.format.commitlog.message import COMMIT
from binlog.format.commitlog.message_parts import (
    CHECK_TIMES,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from binlog.format.commitlog.names import ENDED_TAG, ENDED_TOPIC, HALF_TOPIC
from tests.support.stores import SMALL
from tests.support.waiting import until


class _Broker:
    """Performs the appends of a broker's TransactionalMessageServiceImpl and EndTransactionProcessor."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _append(self, *messages: Message) -> tuple[int, int]:
        with MessageStore(self._path, SMALL) as store:
            appended = store._deliver(list(messages))
            return appended.queue_offsets[0], appended.offset

    def put(self, key: str, *, checks: int = 0) -> tuple[int, int]:
        """Put a half message, or after a check its copy; return its queue offset and its log offset."""
        properties = {UNIQUE_KEY: key, REAL_TOPIC: "t", REAL_QUEUE_ID: "0", TRANSACTION_PREPARED: "true"}
        if checks:
            properties[CHECK_TIMES] = str(checks)
        return self._append(Message.of(HALF_TOPIC, key.encode(), properties=properties, born_ms=5))

    def commit(self, key: str, offset: int) -> None:
        """Append the message of the half message at an offset of the log."""
        message = Message.of("t", key.encode(), properties={UNIQUE_KEY: key, CHECK_TIMES: "1"}, born_ms=5)
        self._append(message._replace(system_flag=COMMIT, prepared_offset=offset))

    def end(self, *numbers: int) -> None:
        """Append the end records of half messages."""
        self._append(Message.of(ENDED_TOPIC, ",".join(map(str, numbers)).encode(), tag=ENDED_TAG))


def _pending(path: Path) -> list[int]:
    with MessageStore(path, SMALL) as store:
        return [half.queue_offset for half in store.transactions.pending()]


def _bodies(path: Path) -> list[bytes]:
    with MessageStore(path, SMALL) as store:
        return [message.body for message in store.pull("t", 0, 0, 1000)]


def test_the_newest_copy_is_pending_and_committed_once(tmp_path: Path) -> None:
    broker = _Broker(tmp_path)
    for checks in range(3):
        broker.put("a", checks=checks)
    broker.put("b")
    assert _pending(tmp_path) == [2, 3]
    with MessageStore(tmp_path, SMALL) as store:
        for half in store.transactions.pending():
            store.transactions.commit(half)
        until(lambda: len(store.queue_range(ENDED_TOPIC, 0)) == 4)  # so that no broker checks an older copy
        assert [message.body for message in store.pull(ENDED_TOPIC, 0, 0, 9)] == [b"0", b"1", b"2", b"3"]
    assert _pending(tmp_path) == []
    assert _bodies(tmp_path) == [b"a", b"b"]


def test_an_older_half_message_refers_to_its_newest_copy(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        half = store.transactions.prepare(Message.of("t", b"a", properties={UNIQUE_KEY: "a"}, born_ms=5))
    _Broker(tmp_path).put("a", checks=1)
    with MessageStore(tmp_path, SMALL) as store:
        store.transactions.commit(half)
        with pytest.raises(StateError):
            store.transactions.commit(half)
    assert _pending(tmp_path) == []
    assert _bodies(tmp_path) == [b"a"]


@pytest.mark.parametrize("copy", [0, 1, 2])
def test_a_brokers_commit_of_any_copy_ends_the_transaction(tmp_path: Path, copy: int) -> None:
    broker = _Broker(tmp_path)
    places = [broker.put("a", checks=checks) for checks in range(3)]
    broker.commit("a", places[copy][1])
    broker.end(places[copy][0])
    assert _pending(tmp_path) == []


@pytest.mark.parametrize("copy", [0, 1])
def test_a_brokers_commit_without_its_end_record_ends_the_transaction(tmp_path: Path, copy: int) -> None:
    broker = _Broker(tmp_path)
    places = [broker.put("a", checks=checks) for checks in range(2)]
    broker.commit("a", places[copy][1])
    assert _pending(tmp_path) == []


def test_a_transaction_ended_through_an_older_copy_stays_ended(tmp_path: Path) -> None:
    """Although another half message is between the copies, and is ended meanwhile."""
    broker = _Broker(tmp_path)
    old, _ = broker.put("a")
    broker.put("between")
    broker.put("last")
    broker.put("a", checks=1)
    broker.end(old)
    with MessageStore(tmp_path, SMALL) as store:
        (_, last) = store.transactions.pending()
        store.transactions.roll_back(last)
    assert _pending(tmp_path) == [1]
    with MessageStore(tmp_path, SMALL) as store:
        store.transactions.roll_back(store.transactions.pending()[0])
    assert _pending(tmp_path) == []


def test_half_messages_that_only_share_a_unique_key_are_separate(tmp_path: Path) -> None:
    broker = _Broker(tmp_path)
    broker.put("a")
    broker.put("a")
    assert _pending(tmp_path) == [0, 1]
    broker.put("a", checks=1)
    broker.put("a", checks=1)
    assert _pending(tmp_path) == [2, 3]
