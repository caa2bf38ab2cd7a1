"""The stat of a group: its items, members, lag, and what it holds."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from binlog import GoneError, NotFoundError, Writer, prune
from binlog import stat as stat_log
from binlog.consumers import ConsumerGroup, GroupControl, Order, Retry, groups, stat_group
from binlog.consumers.state import group_log as log_of_group
from binlog.format.consumers.message import Message
from tests.support.group_workers import Worker

GROUP = "billing"
_NS = 10**9


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three files with two messages each; the last one is open."""
    with Writer(tmp_path) as writer:
        for number in range(6):
            writer.append(b"%d" % number)
            if number in (1, 3):
                writer.cutover()
    return tmp_path


def test_a_new_group_lags_by_all_messages(log: Path) -> None:
    ConsumerGroup(log, GROUP).close()
    found = stat_group(log, GROUP)
    assert (found.floor, found.next, found.lag, found.in_hand, found.members) == (0, 0, 6, 0, ())
    assert found.lag_seconds is not None
    assert 0 <= found.lag_seconds < 3600
    assert found.oldest_in_hand is None
    assert found.next_due_ns is None


def test_a_group_that_is_done_does_not_lag(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        for item in group.consume(timeout=0.1):
            item.ack()
    found = stat_group(log, GROUP)
    assert (found.floor, found.lag, found.lag_seconds, found.held_bytes) == (6, 0, 0.0, 0)
    assert found.counters.done == 6


def test_the_items_in_each_state_are_counted(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        items = [group.get() for _ in range(4)]
        before_ns = time.time_ns()
        for number, item in enumerate(items):
            assert item is not None
            if number == 0:
                item.nack(delay=60)
            elif number == 1:
                item.reject("no")
        found = stat_group(log, GROUP)
        assert (found.delayed, found.dying, found.in_hand, found.lag) == (1, 1, 2, 6)
        assert found.next_due_ns is not None
        assert before_ns <= found.next_due_ns - 60 * _NS <= time.time_ns()


def test_the_oldest_item_in_hand_is_the_one_that_was_started_first(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        first = group.get()
        assert first is not None
        first.nack(delay=0)
        before_ns = time.time_ns()
        items = [group.get() for _ in range(3)]
        oldest = stat_group(log, GROUP).oldest_in_hand
        assert oldest is not None
        assert items[0] is not None
        assert (oldest.sequence, oldest.delivery) == (items[0].sequence, items[0].delivery)
        assert oldest.since_ns is not None
        assert before_ns <= oldest.since_ns <= time.time_ns()


@pytest.mark.slow
def test_an_item_of_before_the_newest_checkpoint_is_the_oldest(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_of_group, "_FILE_BYTES", 4096)
    with ConsumerGroup(log, GROUP) as group:
        stuck = group.get()
        assert stuck is not None
        for _ in range(60):
            with Writer(log) as writer:
                writer.append(b"more")
            item = group.get()
            assert item is not None
            item.ack()
        assert len(stat_log(log / "groups" / GROUP).files) > 1
        other = group.get()
        oldest = stat_group(log, GROUP).oldest_in_hand
        assert other is not None
        assert oldest is not None
        assert (oldest.sequence, oldest.since_ns) == (stuck.sequence, None)


def test_closed_files_from_the_floor_on_are_held(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        files = stat_log(log).files
        assert stat_group(log, GROUP).held_bytes == files[0].disk_bytes + files[1].disk_bytes
        for _ in range(3):
            item = group.get()
            assert item is not None
            item.ack()
        assert stat_group(log, GROUP).held_bytes == files[1].disk_bytes


def test_a_group_that_lags_by_more_than_it_may_hold_holds_nothing(log: Path) -> None:
    ConsumerGroup(log, GROUP, holds="11b").close()
    assert stat_group(log, GROUP).held_bytes == 0
    with GroupControl(log, GROUP) as control:
        control.set(holds="1G")
    assert stat_group(log, GROUP).held_bytes != 0


def test_the_lag_of_a_group_whose_messages_were_removed_has_no_age(log: Path) -> None:
    ConsumerGroup(log, GROUP).close()
    assert prune(log, keep_bytes=0, ignore_groups=True)
    assert stat_group(log, GROUP).lag_seconds is None


@pytest.mark.slow
def test_members_are_alive_until_their_process_is_gone(log: Path) -> None:
    with Worker(log, GROUP, hangs_at="0") as worker:
        worker.until("got", "0")
        (member,) = stat_group(log, GROUP).members
        assert (member.is_alive, member.in_hand[0]) == (True, 0)
        assert member.hint.startswith("pid ")
    (member,) = stat_group(log, GROUP).members
    assert member.is_alive is False
    shutil.rmtree(log / "groups" / GROUP / "members")
    assert len(stat_group(log, GROUP).members) == 1


def test_a_group_is_shown_as_it_was_at_a_time(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        item = group.get()
        at_ns = time.time_ns()
        assert item is not None
        item.ack()
    then, now = stat_group(log, GROUP, at_ns=at_ns), stat_group(log, GROUP)
    assert (then.floor, then.in_hand, then.lag, len(then.members)) == (0, 1, 2, 1)
    assert (then.lag_seconds, then.held_bytes, then.members[0].is_alive) == (None, None, None)
    assert then.oldest_in_hand is not None
    assert (now.floor, now.in_hand, now.members) == (1, 0, ())


def test_settings_and_pauses_are_shown(log: Path) -> None:
    ConsumerGroup(log, GROUP, retry=Retry(deliveries_max=3, most=60), order=Order.STRICT).close()
    with GroupControl(log, GROUP) as control:
        control.pause()
        control.reset(2)
    found = stat_group(log, GROUP)
    assert (found.is_paused, found.epoch, found.floor) == (True, 1, 2)
    assert (found.settings.retry, found.settings.order) == (Retry(deliveries_max=3, most=60), Order.STRICT)


def test_a_delayed_message_lags_too(tmp_path: Path) -> None:
    now_ns = time.time_ns()
    with Writer(tmp_path) as writer:
        writer.append(Message(body=b"later", due_ns=now_ns + 60 * _NS).pack())
        writer.append(Message(body=b"now").pack())
    with ConsumerGroup(tmp_path, GROUP) as group:
        item = group.get()
        assert item is not None
        assert item.data == b"now"
        item.ack()
        found = stat_group(tmp_path, GROUP)
    assert (found.delayed, found.lag, found.floor) == (1, 1, 0)
    assert found.next_due_ns is not None
    assert abs(found.next_due_ns - now_ns - 60 * _NS) < _NS


def test_all_groups_of_a_log_are_found(log: Path) -> None:
    assert groups(log) == []
    for name in ("b", "a"):
        ConsumerGroup(log, name).close()
    (log / "groups" / "unfinished").mkdir()
    assert [found.name for found in groups(log)] == ["a", "b"]


def test_a_group_that_does_not_exist_is_refused(log: Path) -> None:
    with pytest.raises(NotFoundError, match="no consumer group 'other'"):
        stat_group(log, "other")


@pytest.mark.slow
def test_a_time_before_the_history_is_refused(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_of_group, "_FILE_BYTES", 4096)
    monkeypatch.setattr(log_of_group, "_HISTORY_BYTES", 0)
    at_ns = time.time_ns()
    with ConsumerGroup(log, GROUP) as group:
        for _ in range(200):
            with Writer(log) as writer:
                writer.append(b"more")
            for item in group.consume(timeout=0):
                item.ack()
    with pytest.raises(GoneError, match="were removed"):
        stat_group(log, GROUP, at_ns=at_ns)
