"""A disk that is full: producers are refused, and acknowledgements have room for long."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import ConsumerGroup, FullError, Reader, Retry, Writer
from binlog.consumers import check_group, stat_group
from tests.support.namespaces import on_a_small_disk

GROUP = "billing"
_COUNT = 25_000
_ACKS_MIN = 10_000


def _fill(path: Path) -> None:
    status = os.statvfs(path.parent)
    path.write_bytes(bytes(status.f_bavail * status.f_frsize))


def _consume_until_full(group: ConsumerGroup) -> int:
    """Acknowledge items until the disk has no room, and return how many."""
    count = 0
    try:
        for item in group.consume(timeout=0):
            item.ack()
            count += 1
    except FullError:
        return count
    raise AssertionError("the disk is never full")


def _acknowledge_on_a_full_disk(disk: Path) -> None:
    log, filler = disk / "log", disk / "filler"
    with Writer(log) as writer, ConsumerGroup(log, GROUP, mode="flush") as group:
        writer.append_many([b"%d" % number for number in range(_COUNT)])
        held = group.get(timeout=10)
        assert held is not None
        _fill(filler)
        with pytest.raises(FullError):
            writer.append(bytes(1 << 21))
        count = _consume_until_full(group)
        assert count >= _ACKS_MIN
        with pytest.raises(FullError):
            held.ack()
        assert stat_group(log, GROUP).counters.done == count
        filler.unlink()
        held.ack()
        for item in group.consume(timeout=0):
            item.ack()
        stat = group.stat()
        # The item whose acknowledgement found the disk full is in hand.
        assert stat.counters.done + stat.in_hand == _COUNT
        assert stat.in_hand <= 1
    with ConsumerGroup(log, GROUP) as group:
        for item in group.consume(timeout=0):
            item.ack()
        assert group.stat().floor == _COUNT
    assert binlog.check(log) == []
    assert check_group(log, GROUP) == []


def _keep_dead_letters_on_a_full_disk(disk: Path) -> None:
    """A dead letter that does not fit stays an item of the group, and is made one when there is room."""
    log, filler = disk / "log", disk / "filler"
    body = bytes(1_500_000)
    with Writer(log) as writer, ConsumerGroup(log, GROUP, retry=Retry(deliveries_max=1)) as group:
        writer.append_many([body, b"fine"])
        _fill(filler)
        item = group.get(timeout=10)
        assert item is not None
        item.nack(error="no")
        assert _consume_until_full(group) <= 1
        stat = group.stat()
        assert (stat.dying, stat.counters.dead) == (1, 0)
        filler.unlink()
        for other in group.consume(timeout=0.01):
            other.ack()
        assert group.stat().counters.dead == 1
    (letter,) = Reader(log / "groups" / GROUP / "dead")
    assert letter.data.endswith(body)
    with ConsumerGroup(log, GROUP) as group:
        for other in group.consume(timeout=0):
            other.ack()
    assert stat_group(log, GROUP).floor == 2
    assert check_group(log, GROUP) == []


def _make_no_group_on_a_full_disk(disk: Path) -> None:
    log, filler = disk / "log", disk / "filler"
    with Writer(log) as writer:
        writer.append(b"0")
    _fill(filler)
    with pytest.raises(FullError):
        ConsumerGroup(log, GROUP)
    filler.unlink()
    with ConsumerGroup(log, GROUP) as group:
        item = group.get(timeout=10)
        assert item is not None
        item.ack()
    assert check_group(log, GROUP) == []


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(_acknowledge_on_a_full_disk, marks=pytest.mark.slow),
        _keep_dead_letters_on_a_full_disk,
        _make_no_group_on_a_full_disk,
    ],
)
@pytest.mark.slow
def test_a_full_disk_refuses_calls_and_loses_no_item(tmp_path: Path, work: Callable[[Path], None]) -> None:
    on_a_small_disk(tmp_path, lambda: work(tmp_path), size="12m")
