"""Retention keeps what a consumer group is not done with."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlog import Writer, prune
from binlog.consumers.group import ConsumerGroup
from binlog.consumers.retention import group_floors


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of four files with two messages each; the last file is open."""
    with Writer(tmp_path) as writer:
        for number in range(8):
            writer.append(b"%d" % number)
            if number in (1, 3, 5):
                writer.cutover()
    return tmp_path


def _files(log: Path) -> list[str]:
    return sorted(path.name for path in log.glob("*.dat"))


def _consume(log: Path, name: str, count: int, *, skipping: int | None = None) -> None:
    with ConsumerGroup(log, name) as group:
        for _ in range(count):
            item = group.get(timeout=1)
            assert item is not None
            if item.sequence == skipping:
                item.nack(delay=3600)
            else:
                item.ack()


def test_a_file_stays_while_a_message_in_it_is_not_done(log: Path) -> None:
    _consume(log, "fast", 8)
    _consume(log, "slow", 5, skipping=2)
    assert [tuple(each) for each in group_floors(log)] == [("fast", 8), ("slow", 2)]
    assert [each.number for each in prune(log, keep_bytes=0)] == [1]
    assert _files(log) == ["00000002.dat", "00000003.dat", "00000004.dat"]
    assert prune(log, keep_bytes=0) == []
    assert [each.number for each in prune(log, keep_bytes=0, ignore_groups=True)] == [2, 3]


def test_what_all_groups_are_done_with_may_go(log: Path) -> None:
    with pytest.raises(ValueError, match="no consumer group"):
        prune(log, consumed=True)
    _consume(log, "fast", 8)
    _consume(log, "slow", 4)
    assert [each.number for each in prune(log, consumed=True, dry_run=True)] == [1, 2]
    assert [each.number for each in prune(log, consumed=True)] == [1, 2]
    _consume(log, "slow", 4)
    assert [each.number for each in prune(log, consumed=True)] == [3]


def test_other_limits_hold_too(log: Path) -> None:
    _consume(log, "fast", 8)
    assert [each.number for each in prune(log, consumed=True, before="2:256")] == [1]
    assert prune(log, consumed=True, keep_seconds=3600) == []
