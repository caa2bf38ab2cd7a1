"""Members that are stopped, with a limit for their items and without one, and items that two processes end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import ConsumerGroup, LeaseLostError, Writer
from binlog.consumers import stat_group
from tests.support.commanded_workers import CommandedWorker
from tests.support.group_workers import until_idle
from tests.support.waiting import until

GROUP = "billing"
_LEASE = 0.3


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with Writer(tmp_path) as writer:
        writer.append_many([b"0", b"1"])
    return tmp_path


def test_the_items_of_a_stopped_member_wait_until_an_operator_gives_them_to_others(log: Path) -> None:
    with CommandedWorker(log, GROUP) as stopped, ConsumerGroup(log, GROUP) as group:
        assert stopped.do("get", 10) == [0, 1]
        stopped.stop()
        other = group.get(timeout=10)
        assert other is not None
        assert other.sequence == 1
        other.ack()
        assert group.get(timeout=0) is None
        stat = group.stat()
        assert stat.oldest_in_hand is not None
        assert (stat.oldest_in_hand.sequence, stat.in_hand, stat.floor) == (0, 1, 0)
        (member,) = (member for member in stat.members if member.in_hand)
        assert (member.seat, member.is_alive) == (stat.oldest_in_hand.seat, True)
        assert group.release(member.seat) == [0]
        item = group.get(timeout=10)
        assert item is not None
        assert (item.sequence, item.delivery) == (0, 2)
        stopped.resume()
        assert stopped.error("ack", 0) == "LeaseLostError"
        item.ack()
        assert stopped.do("get", 0) is None
        assert stat_group(log, GROUP).floor == 2


def test_after_its_lease_an_item_of_a_stopped_member_is_delivered_to_another(
    log: Path, figure: Callable[[str], None]
) -> None:
    with CommandedWorker(log, GROUP, lease=_LEASE) as stopped, ConsumerGroup(log, GROUP) as group:
        asked = time.monotonic()
        assert stopped.do("get", 10) == [0, 1]
        stopped.stop()
        assert group.get(timeout=10) is not None
        item = group.get(timeout=60)
        waited = time.monotonic() - asked
        assert item is not None
        assert (item.sequence, item.delivery) == (0, 2)
        assert waited >= _LEASE
        stopped.resume()
        assert stopped.error("ack", 0) == "LeaseLostError"
        item.ack()
    figure(f"a lease of {_LEASE} s ended: another member had the item after {waited:.3f} s")


def test_a_late_acknowledgement_counts_if_the_item_was_not_started_again(log: Path) -> None:
    with CommandedWorker(log, GROUP, lease=_LEASE) as stopped, ConsumerGroup(log, GROUP) as group:
        assert stopped.do("get", 10) == [0, 1]
        stopped.stop()
        group.pause()

        def has_ended() -> bool:
            due_ns = group.stat().next_due_ns
            return due_ns is None or due_ns < time.time_ns()

        until(has_ended)
        group.resume()  # this operation ends the lease
        assert group.stat().ready == 1
        stopped.resume()
        assert stopped.do("ack", 0) is None
        counters = group.stat().counters
        assert (counters.done, counters.started) == (1, 1)


def test_an_extended_lease_ends_later(log: Path) -> None:
    with CommandedWorker(log, GROUP, lease=_LEASE) as slow, ConsumerGroup(log, GROUP) as group:
        assert slow.do("get", 10) == [0, 1]
        assert slow.do("extend", 0, 3600) is None
        began_ns = group.stat().next_due_ns
        assert began_ns is not None
        assert began_ns > time.time_ns() + 3000 * 10**9
        assert slow.do("ack", 0) is None


@pytest.mark.parametrize("owner_is_first", [True, False])
def test_of_two_processes_that_acknowledge_an_item_the_first_one_counts(log: Path, owner_is_first: bool) -> None:
    with CommandedWorker(log, GROUP) as owner, CommandedWorker(log, GROUP) as other:
        assert owner.do("get", 10) == [0, 1]
        token = owner.do("token", 0)
        if owner_is_first:
            assert owner.do("ack", 0) is None
            assert other.error("ack token", token) == "LeaseLostError"
        else:
            assert other.do("ack token", token) is None
            assert owner.error("ack", 0) == "LeaseLostError"
        counters = stat_group(log, GROUP).counters
        assert (counters.done, counters.failed) == (1, 0)
        assert owner.do("get", 10) == [1, 1]
    with ConsumerGroup(log, GROUP) as group:
        item = group.get(timeout=10)
        assert item is not None
        assert (item.sequence, item.delivery) == (1, 2)
        item.ack()
        with pytest.raises(LeaseLostError):
            group.ack(token)


def test_a_failed_item_wakes_an_idle_member_when_it_is_due(log: Path, figure: Callable[[str], None]) -> None:
    delay = 0.3
    with CommandedWorker(log, GROUP) as failing, CommandedWorker(log, GROUP) as idle:
        assert failing.do("get", 10) == [0, 1]
        assert failing.do("get", 10) == [1, 1]
        idle.begin("get", 60)
        until_idle(log, GROUP, 1)
        failed = time.monotonic()
        assert failing.do("nack", 0, delay) is None
        assert idle.answer() == [0, 2]
        waited = time.monotonic() - failed
        assert waited >= delay
    figure(f"an item that was due after {delay} s: an idle member had it after {waited:.3f} s")
