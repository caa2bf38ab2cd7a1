from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog.commitlog.append.flush_services import GroupCommitService, Pace
from binlog.commitlog.append.message import Message
from binlog.commitlog.options import Flush
from binlog.commitlog.retention import Retention
from binlog.commitlog.store import MessageStore
from binlog.errors import FullError, NotFoundError, StateError
from binlog.format.commitlog.message import COMMIT, PREPARED
from binlog.format.commitlog.message_parts import LOWEST_HALF, TAGS, UNIQUE_KEY, parse_properties
from binlog.format.commitlog.names import ENDED_TOPIC, HALF_TOPIC
from tests.support.children import lines_until_killed
from tests.support.stores import SMALL
from tests.support.waiting import until


def _bodies(store: MessageStore, topic: str, queue_id: int = 0) -> list[bytes]:
    return [message.body for message in store.pull(topic, queue_id, 0, 10_000)]


def test_a_half_message_is_delivered_only_after_its_commit(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        half = store.transactions.prepare(
            Message.of("t", b"body", queue_id=3, tag="tag", keys=["k"], born_ms=5, flag=7)
        )
        assert store.transactions.pending() == [half]
        assert store.queue_range("t", 3) == range(0)
        assert store.find("t", "k") == []
        waiting = store.transactions.message(half)
        assert (waiting.topic, waiting.queue_id, waiting.body, waiting.system_flag) == (HALF_TOPIC, 0, b"body", 0)

        appended = store.transactions.commit(half)
        until(lambda: len(store.queue_range("t", 3)) == 1)
        (message,) = store.pull("t", 3, 0, 2)
        assert (message.body, message.born_ms, message.flag, message.offset) == (b"body", 5, 7, appended.offset)
        assert (message.system_flag, message.prepared_offset) == (COMMIT, half.offset)
        properties = parse_properties(message.properties)
        unique = parse_properties(waiting.properties)[UNIQUE_KEY]
        assert properties == {"KEYS": "k", TAGS: "tag", UNIQUE_KEY: unique, "WAITED_AT": str(half.offset)}
        assert store.transactions.pending() == []


def test_an_unflushed_half_message_can_be_read_and_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise as a signal handler would while `prepare` waits for the disk."""
    with MessageStore(tmp_path, SMALL) as store:
        with monkeypatch.context() as patched:
            patched.setattr(store.transactions, "_wait", lambda appended: None)
            store.transactions.prepare(Message("t", b"one"))
            store.transactions.prepare(Message("t", b"other"))
        one, other = store.transactions.pending()
        assert store.transactions.message(one).body == b"one"
        store.transactions.commit(one)
        store.transactions.commit(other)
        until(lambda: _bodies(store, "t") == [b"one", b"other"])


def test_a_rolled_back_message_is_never_delivered(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        half = store.transactions.prepare(Message("t", b"body"))
        store.transactions.roll_back(half)
        for end in (store.transactions.commit, store.transactions.roll_back):
            with pytest.raises(StateError, match="half message 0 is not pending"):
                end(half)
        end = store.append(Message("t", b"another"))
        until(lambda: store.queue_range("t", 0) == range(1))
        assert end.queue_offsets == [0]
        assert _bodies(store, "t") == [b"another"]


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
def test_pending_half_messages_survive_their_process(tmp_path: Path, clean: bool) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        halves = [store.transactions.prepare(Message("t", b"%d" % number)) for number in range(600)]
        for number in (0, 1, 2, 5, *range(7, 600)):
            (store.transactions.commit if number % 2 else store.transactions.roll_back)(halves[number])
        until(lambda: len(store.queue_range("t", 0)) == 299)
        before = store.transactions.pending()
        assert before == [halves[3], halves[4], halves[6]]
    if not clean:
        (tmp_path / "abort").touch()
    with MessageStore(tmp_path, SMALL) as store:
        assert store.transactions.pending() == before
        assert store.transactions.pending(before_ms=before[0].store_ms) == []
        store.transactions.commit(before[1])
        with pytest.raises(StateError):
            store.transactions.commit(halves[599])
        until(lambda: _bodies(store, "t")[-1] == b"4")
        last = store.pull(ENDED_TOPIC, 0, store.queue_range(ENDED_TOPIC, 0)[-1], 1)
        assert parse_properties(last[0].properties)[LOWEST_HALF] == "3"


def test_a_commit_without_its_end_record_is_not_repeated(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        kept = store.transactions.prepare(Message("t", b"kept"))
        half = store.transactions.prepare(Message("t", b"once"))
        committed = store.transactions.commit(half)
    # as after a power cut between the two writes: the end record is missing
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(committed.offsets[1])
        file.write(bytes(committed.message_bytes))
    (tmp_path / "abort").touch()
    with MessageStore(tmp_path, SMALL) as store:
        assert store.queue_range(ENDED_TOPIC, 0) == range(0)
        assert _bodies(store, "t") == [b"once"]
        assert store.transactions.pending() == [kept]


def test_an_end_that_could_not_be_appended_can_be_retried(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        half = store.transactions.prepare(Message("t", bytes(40_000)))
        for ratio in (0.0, 2.0):
            store._cleaner._retention = Retention(at_hour=None, expire_ratio=2, force_ratio=2, full_ratio=ratio)
            store._cleaner.run(manual=False)
            if ratio == 0:
                with pytest.raises(FullError):
                    store.transactions.commit(half)
                assert store.transactions.pending() == [half]
        store.transactions.commit(half)
        assert store.transactions.pending() == []


@pytest.mark.slow
def test_a_committed_message_with_a_delay_is_parked(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        half = store.transactions.prepare(Message.of("t", b"later", delay_level=1))
        time.sleep(1.1)  # the delay starts with the commit
        appended = store.transactions.commit(half)
        until(lambda: len(store.queue_range("t", 0)) == 1)
        (message,) = store.pull("t", 0, 0, 1)
        assert message.store_ms - appended.store_ms >= 1000
        assert message.body == b"later"


@pytest.mark.parametrize("topic", ["", "a/b", HALF_TOPIC, ENDED_TOPIC])
def test_a_half_message_needs_a_valid_destination(tmp_path: Path, topic: str) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        with pytest.raises(ValueError, match="invalid or reserved"):
            store.transactions.prepare(Message(topic, b""))
        assert store.transactions.pending() == []


_ENDING = """
import dataclasses, sys
from binlog.commitlog.append.message import Message
from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from tests.support.stores import SMALL

store = MessageStore(sys.argv[1], dataclasses.replace(SMALL, flush=Flush(sys.argv[2])))
number = 0
while True:
    half = store.transactions.prepare(Message("t", b"%d" % number))
    print("p", number, flush=True)
    (store.transactions.commit if number % 3 else store.transactions.roll_back)(half)
    print("e", number, flush=True)
    number += 1
"""


@pytest.mark.parametrize("flush", ["sync", "async", "pooled"])
@pytest.mark.slow
def test_a_kill_leaves_no_transaction_half_ended(tmp_path: Path, flush: str) -> None:
    lines = lines_until_killed(_ENDING, tmp_path, flush, enough=lambda lines: len(lines) == 201)
    dispatched = [line.split() for line in lines]
    prepared = max(int(number) for kind, number in dispatched if kind == "p")
    ended = max(int(number) for kind, number in dispatched if kind == "e")
    assert ended >= 99
    with MessageStore(tmp_path, SMALL) as store:
        seen = [int(body) for body in _bodies(store, "t")]
        left = [int(store.transactions.message(half).body) for half in store.transactions.pending()]
        assert seen == sorted(set(seen))
        assert {number for number in range(ended + 1) if number % 3} <= set(seen)
        assert all(number % 3 for number in seen)
        assert not set(seen) & set(left)
        assert all(number > ended for number in left)
        assert prepared <= ended or prepared in {*seen, *left} or prepared % 3 == 0


def test_a_half_message_with_its_own_transaction_flag_is_found(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        halves = [store.transactions.prepare(Message("t", b"%d" % n, system_flag=PREPARED)) for n in range(2)]
    with MessageStore(tmp_path, SMALL) as store:
        assert store.transactions.pending() == halves
        store.transactions.commit(halves[1])
        until(lambda: _bodies(store, "t") == [b"1"])


def test_a_half_message_is_identified_by_its_queue_offset(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        first, second = (store.transactions.prepare(Message("t", body)) for body in (b"first", b"second"))
        store.transactions.commit(first._replace(offset=second.offset))
        until(lambda: _bodies(store, "t") == [b"first"])
        assert store.transactions.pending() == [second]


@pytest.mark.slow
def test_an_expired_half_message_cannot_be_ended(tmp_path: Path) -> None:
    options = dataclasses.replace(SMALL, retention=Retention(hours=0))
    with MessageStore(tmp_path, options) as store:
        old = store.transactions.prepare(Message("t", b"old"))
        for _ in range(10):
            store.append(Message("t", bytes(20_000)))
        late = store.transactions.prepare(Message("t", b"late"))
        until(lambda: store.remove_expired() > 0)
        assert store.transactions.pending() == [late]
        store.transactions.commit(late)
        for end in (store.transactions.roll_back, store.transactions.commit):
            with pytest.raises(NotFoundError, match="half message 0 has expired"):
                end(old)


@pytest.mark.slow
def test_a_message_that_could_not_be_committed_is_not_prepared(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        refused = 0
        for size in range(64_000, 65_537, 8):
            try:
                half = store.transactions.prepare(Message("t", bytes(size)))
            except FullError:
                refused += 1
            else:
                store.transactions.commit(half)
        assert 0 < refused < 192
        for size in range(32_500, 32_768):
            try:
                half = store.transactions.prepare(Message.of("t", b"", delay_level=18, properties={"p": "x" * size}))
            except ValueError:
                refused += 1
            else:
                store.transactions.commit(half)
        assert store.transactions.pending() == []
        assert store.transactions._floors == []


@pytest.mark.slow
def test_a_half_message_in_a_buffer_can_be_committed(tmp_path: Path) -> None:
    options = dataclasses.replace(SMALL, flush=Flush.POOLED, commit_pace=Pace(1000.0, 1000, 1000.0))
    with MessageStore(tmp_path, options) as store:
        for number in range(100):
            half = store.transactions.prepare(Message("t", bytes(3000)))
            assert store.transactions.message(half).body == bytes(3000)
            (store.transactions.commit if number % 2 else store.transactions.roll_back)(half)
    with MessageStore(tmp_path, options) as store:
        assert store.queue_range("t", 0) == range(50)
        assert store.transactions.pending() == []


def test_a_half_message_can_be_ended_during_its_sync(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store, ThreadPoolExecutor(2) as pool:
        store.append(Message("t", b"first"))
        service = store._flushing
        assert isinstance(service, GroupCommitService)
        with service._group.lead_or_wait(store.max_offset + 1) as leads:  # no other thread syncs
            assert leads
            prepared = pool.submit(store.transactions.prepare, Message("t", b"body"))
            until(lambda: len(store.transactions.pending()) == 1)
            (half,) = store.transactions.pending()
            committed = pool.submit(store.transactions.commit, half)
            time.sleep(0.1)
            assert not prepared.done()
        assert prepared.result(60) == half
        committed.result(60)
        until(lambda: _bodies(store, "t") == [b"first", b"body"])
