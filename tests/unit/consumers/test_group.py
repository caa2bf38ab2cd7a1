"""A consumer group in one process: what a user does with items."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from binlog import GoneError, Reader, Sequence, Writer, prune
from binlog.consumers.group import ConsumerGroup, Retry
from binlog.errors import ClosedError, LeaseLostError
from binlog.format.consumers.message import Message
from tests.support.children import Child
from tests.support.group_workers import idle_count
from tests.support.waiting import until

GROUP = "billing"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with Writer(tmp_path) as writer:
        writer.append_many([b"%d" % number for number in range(5)])
    return tmp_path


def _drain(group: ConsumerGroup, timeout: float = 0.05) -> Iterator[tuple[bytes, int]]:
    for item in group.consume(timeout=timeout):
        yield item.data, item.delivery
        item.ack()


def test_every_message_is_handed_out_once(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        assert [data for data, _ in _drain(group)] == [b"0", b"1", b"2", b"3", b"4"]
    with ConsumerGroup(log, GROUP) as group:
        assert group.get(timeout=0) is None


@pytest.mark.parametrize(("start", "first"), [("beginning", b"0"), ("end", b"new"), (Sequence(3), b"3")])
def test_a_group_begins_where_it_is_told(log: Path, start: str | Sequence, first: bytes) -> None:
    with ConsumerGroup(log, GROUP, start=start) as group, Writer(log) as writer:
        writer.append(b"new")
        item = group.get(timeout=1)
        assert item is not None
        assert item.data == first


def test_a_block_that_ends_acknowledges_and_one_that_fails_retries(log: Path) -> None:
    with ConsumerGroup(log, GROUP, retry=Retry(first=0)) as group:
        item = group.get()
        assert item is not None
        with pytest.raises(RuntimeError), item:
            raise RuntimeError("no")
        assert (b"0", 2) in list(_drain(group))


def test_ctrl_c_in_a_block_gives_the_item_back_uncounted(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        item = group.get()
        assert item is not None
        with pytest.raises(KeyboardInterrupt), item:
            raise KeyboardInterrupt
        assert (b"0", 1) in list(_drain(group))


@pytest.mark.slow
def test_a_failed_item_comes_again_after_its_delay(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        item = group.get()
        assert item is not None
        item.nack(delay=0.2)
        begun = time.monotonic()
        found = {next(iter(_drain(group, timeout=5))): time.monotonic() - begun for _ in range(5)}
        assert set(found) == {(b"0", 2), *((b"%d" % number, 1) for number in range(1, 5))}
        assert found[b"0", 2] >= 0.19


@pytest.mark.slow
def test_a_message_becomes_a_dead_letter_after_its_last_delivery(log: Path) -> None:
    with ConsumerGroup(log, GROUP, retry=Retry(deliveries_max=2, first=0)) as group:
        for item in group.consume(timeout=0.2):
            if item.data == b"3":
                item.nack(error="it is three")
            else:
                item.ack()
    (letter,) = Reader(log / "groups" / GROUP / "dead")
    message = Message.parse(letter.data)
    assert message.body == b"3"
    assert message.headers["binlog-reason"] == b"it is three"
    assert message.headers["binlog-deliveries"] == b"2"
    assert message.headers["binlog-sequence"] == b"3"
    with ConsumerGroup(log, GROUP) as group:
        assert [(each.body, each.reason) for each in group.dead_letters()] == [(b"3", "it is three")]


def test_an_item_that_was_ended_is_ended_once(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        item = group.get()
        assert item is not None
        item.ack()
        with pytest.raises(LeaseLostError):
            item.ack()


def test_what_a_member_did_not_hand_out_is_free_when_its_loop_ends(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as one, ConsumerGroup(log, GROUP) as two:
        for item in one.consume(prefetch=3):
            item.ack()
            break
        assert sorted(data for data, _ in _drain(two)) == [b"1", b"2", b"3", b"4"]


def test_messages_that_retention_removed_are_reported_or_skipped(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        for number in range(3):
            writer.append(b"%d" % number)
            if number < 2:
                writer.cutover()
        with ConsumerGroup(tmp_path, GROUP):
            pass
        prune(tmp_path, keep_bytes=0, ignore_groups=True)
    with ConsumerGroup(tmp_path, GROUP) as group, pytest.raises(GoneError):
        group.get(timeout=0)
    with ConsumerGroup(tmp_path, GROUP, skip_gone=True) as group:
        assert [data for data, _ in _drain(group)] == [b"2"]


@pytest.mark.slow
@pytest.mark.slow
def test_a_forked_child_is_another_member(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        mine = group.get()
        assert mine is not None
        found: list[bytes] = []

        def consume() -> None:
            for item in group.consume(timeout=0.2):
                assert item.data != mine.data
                item.ack()
            group.close()

        Child(consume).join()
        mine.ack()
        found += [data for data, _ in _drain(group)]
        assert found == []


@pytest.mark.slow
def test_threads_of_one_member_share_its_items(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group, ThreadPoolExecutor(4) as pool:

        def consume() -> list[bytes]:
            found = []
            while (item := group.get(timeout=0.3)) is not None:
                found.append(item.data)
                item.ack()
            return found

        results = [pool.submit(consume) for _ in range(4)]
        assert sorted(data for each in results for data in each.result()) == [b"0", b"1", b"2", b"3", b"4"]


def test_closing_ends_the_wait_of_another_thread(log: Path) -> None:
    group = ConsumerGroup(log, GROUP, start="end")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(group.get)
        until(lambda: idle_count(log, GROUP) == 1)
        group.close()
        with pytest.raises(ClosedError):
            waiting.result(timeout=10)


def test_an_interrupted_call_loses_no_item(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ConsumerGroup(log, GROUP) as group:
        member = group._opened._joined()
        submit = member.log.submit

        def interrupted(*arguments: Any, **options: Any) -> Any:
            submit(*arguments, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(member.log, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            group.get()
        monkeypatch.undo()
        assert [data for data, _ in _drain(group)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_filler_in_place_of_a_damaged_message_becomes_a_dead_letter(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        text = b"BINLOG DAMAGED 1:256-512"
        writer.append_many([text, b"whole", b"BINLOG DAMAGED is what a user may write"])
    with ConsumerGroup(tmp_path, GROUP) as group:
        assert [data for data, _ in _drain(group)] == [b"whole", b"BINLOG DAMAGED is what a user may write"]
    (letter,) = Reader(tmp_path / "groups" / GROUP / "dead")
    assert Message.parse(letter.data).headers["binlog-reason"] == b"damaged"


def test_a_closed_group_refuses(log: Path) -> None:
    group = ConsumerGroup(log, GROUP)
    group.close()
    group.close()
    with pytest.raises(ClosedError):
        group.get()
