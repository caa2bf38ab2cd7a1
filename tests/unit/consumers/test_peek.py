"""Messages that a group is not done with, and its dead letters, read without taking any."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from binlog import NotFoundError, Writer, prune
from binlog.consumers import (
    ConsumerGroup,
    Order,
    Retry,
    Status,
    drop_dead_letters,
    peek,
    read_dead_letters,
    stat_group,
)
from binlog.format.consumers.message import Message

GROUP = "billing"
_NS = 10**9


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with Writer(tmp_path) as writer:
        writer.append_many([b"%d" % number for number in range(6)])
    return tmp_path


def _statuses(log: Path, **options: object) -> list[tuple[int, Status]]:
    return [(item.sequence, item.status) for item in peek(log, GROUP, **options)]  # type: ignore[arg-type]


def test_messages_that_were_delivered_come_first(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        items = [group.get() for _ in range(4)]
        for item, end in zip(items, ("ack", "nack", "reject", "keep"), strict=True):
            assert item is not None
            if end == "ack":
                item.ack()
            elif end == "nack":
                item.nack(delay=60)
            elif end == "reject":
                item.reject("no")
        found = list(peek(log, GROUP))
    assert [(item.sequence, item.status) for item in found] == [
        (1, Status.DELAYED), (2, Status.DYING), (3, Status.IN_HAND), (4, Status.NEW), (5, Status.NEW),
    ]  # fmt: skip
    assert [item.message.body for item in found if item.message] == [b"1", b"2", b"3", b"4", b"5"]
    assert found[0].due_ns is not None
    assert abs(found[0].due_ns - time.time_ns() - 60 * _NS) < 30 * _NS
    assert (found[1].reason, found[2].delivery) == ("no", 1)
    assert found[2].seat is not None
    assert found[0].seat is None


def test_only_the_wanted_ones_are_returned(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        item = group.get()
        assert item is not None
        item.nack(delay=60)
        assert _statuses(log, statuses=[Status.NEW], count=2) == [(1, Status.NEW), (2, Status.NEW)]
        assert _statuses(log, statuses=[Status.DELAYED]) == [(0, Status.DELAYED)]
        assert _statuses(log, count=0) == []
        assert stat_group(log, GROUP).counters.started == 1


def test_a_message_with_a_due_time_is_not_new(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append(Message(body=b"now").pack())
        writer.append(Message(body=b"later", due_ns=time.time_ns() + 60 * _NS).pack())
        writer.append(Message(body=b"too", key=b"k", headers={"a": b"b"}).pack())
    with ConsumerGroup(tmp_path, GROUP) as group:
        item = group.get()
        assert item is not None
        item.ack()
        found = list(peek(tmp_path, GROUP))
    assert [(item.sequence, item.status) for item in found] == [(1, Status.DELAYED), (2, Status.NEW)]
    assert found[1].message is not None
    assert (found[1].message.key, found[1].message.headers) == (b"k", {"a": b"b"})


def test_a_message_after_another_with_its_key_is_blocked(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        for number in range(2):
            writer.append(Message(body=b"%d" % number, key=b"k").pack())
    with ConsumerGroup(tmp_path, GROUP, order=Order.STRICT) as group:
        assert group.get() is not None
        assert group.get(timeout=0) is None
        assert _statuses(tmp_path) == [(0, Status.IN_HAND), (1, Status.BLOCKED)]


def test_a_removed_message_has_a_problem(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        for _ in range(5):
            item = group.get()
            assert item is not None
            item.nack(delay=60)
        with Writer(log) as writer:
            writer.cutover()
            writer.append(b"6")
        prune(log, keep_bytes=0, ignore_groups=True)
        found = list(peek(log, GROUP))
    assert [item.sequence for item in found][:5] == [0, 1, 2, 3, 4]
    assert all(item.message is None and item.problem for item in found)


def _kill_all(log: Path) -> None:
    with ConsumerGroup(log, GROUP, retry=Retry(deliveries_max=1)) as group:
        for item in group.consume(timeout=0.2):
            item.nack(error=f"no {item.sequence}")


@pytest.mark.slow
def test_dead_letters_have_the_message_and_the_reason(tmp_path: Path) -> None:
    before_ns = time.time_ns()
    with Writer(tmp_path) as writer:
        ref = writer.append(Message(body=b"body", key=b"k", headers={"a": b"\xff"}).pack())
        writer.append(b"plain")
    assert list(_dead_letters_of_new_group(tmp_path)) == []
    _kill_all(tmp_path)
    first, second = read_dead_letters(tmp_path, GROUP)
    assert (first.sequence, first.origin, first.reason, first.deliveries, first.deaths) == (0, str(ref), "no 0", 1, 0)
    assert (first.body, first.key, dict(first.headers)) == (b"body", b"k", {"a": b"\xff"})
    assert before_ns <= first.time_ns <= time.time_ns()
    assert (second.body, second.key, dict(second.headers)) == (b"plain", None, {})


def _dead_letters_of_new_group(log: Path) -> list[object]:
    """Return the dead letters of a group that never had one."""
    ConsumerGroup(log, GROUP, retry=Retry(deliveries_max=1)).close()
    return list(read_dead_letters(log, GROUP))


@pytest.mark.slow
@pytest.mark.slow
def test_dead_letters_are_dropped_by_files(log: Path) -> None:
    _kill_all(log)
    assert len(list(read_dead_letters(log, GROUP))) == 6
    assert drop_dead_letters(log, GROUP, keep_seconds=3600) == []
    with Writer(log) as writer:
        writer.append(b"6")
    _kill_all(log)
    letters = list(read_dead_letters(log, GROUP))
    assert [letter.sequence for letter in letters] == [0, 1, 2, 3, 4, 5, 6]
    assert [file.record_count for file in drop_dead_letters(log, GROUP, before=letters[-1].ref)] == [6]
    assert [letter.sequence for letter in read_dead_letters(log, GROUP)] == [6]
    assert [file.record_count for file in drop_dead_letters(log, GROUP)] == [1]
    assert list(read_dead_letters(log, GROUP)) == []
    assert drop_dead_letters(log, GROUP) == []


def test_a_group_that_does_not_exist_has_neither(log: Path) -> None:
    with pytest.raises(NotFoundError):
        peek(log, "other")
    with pytest.raises(NotFoundError):
        read_dead_letters(log, "other")
    with pytest.raises(NotFoundError):
        drop_dead_letters(log, "other")
