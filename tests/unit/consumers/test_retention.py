"""Retention keeps what a consumer group is not done with."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from binlog import GoneError, Writer, prune
from binlog.consumers.control import GroupControl
from binlog.consumers.group import ConsumerGroup
from binlog.consumers.retention import group_floors, group_names
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_log import GroupLog
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.operation import Kind, Setting
from binlog.storage.mode import Mode
from tests.support.children import killed_after

_HOUR_NS = 3_600 * 10**9


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


@pytest.mark.slow
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


class _EarlierClock(GroupClock):
    """The clock of a boot before this one, ten days ago."""

    @property
    def boot(self) -> bytes:
        return b"an earlier boot."

    def since_boot_ns(self) -> int:
        return _HOUR_NS

    def wall_ns(self) -> int:
        return time.time_ns() - 10 * 24 * _HOUR_NS


def _held(log: Path, holds: str | float) -> list[str]:
    for name in group_names(log):
        with GroupControl(log, name) as control:
            control.set(holds=holds)
    return [each.name for each in group_floors(log)]


@pytest.mark.slow
def test_a_group_without_members_holds_for_as_long_as_it_says(log: Path) -> None:
    _consume(log, "stopped", 1)
    assert _held(log, "1h") == ["stopped"]
    with ConsumerGroup(log, "stopped") as group:
        assert group.get(timeout=1) is not None
        assert _held(log, 1e-9) == ["stopped"]  # it has a member
    assert group_floors(log) == []
    assert [each.number for each in prune(log, keep_bytes=0)] == [1, 2, 3]
    with ConsumerGroup(log, "stopped") as group, pytest.raises(GoneError):
        group.get(timeout=1)


@pytest.mark.slow
def test_a_killed_member_does_not_hold(log: Path) -> None:
    _consume(log, "stopped", 1)
    with GroupControl(log, "stopped") as control:
        control.set(holds=1e-9)

    def work() -> ConsumerGroup:
        group = ConsumerGroup(log, "stopped")
        assert group.get(timeout=1) is not None
        return group

    killed_after(work)
    assert group_floors(log) == []


def test_a_group_whose_last_operation_was_before_the_boot_is_idle_since_then(log: Path) -> None:
    folder = str(log / "groups" / "stopped")
    (log / "groups" / "stopped").mkdir(parents=True)
    clock = _EarlierClock()
    group_log = GroupLog.open(folder, clock)
    group_log.set_up(Settings(holds_ns=9 * 24 * _HOUR_NS), 0)
    group_log.submit([(Kind.CLOCK, clock.for_this_boot(group_log.state))], anonymous=True)
    group_log.submit([], anonymous=True, mode=Mode.SYNC)
    group_log.close()
    assert group_floors(log) == []
    group_log = GroupLog.open(folder, clock)
    group_log.submit([(Kind.SETTINGS, {Setting.HOLDS_NS: 11 * 24 * _HOUR_NS})], anonymous=True, mode=Mode.SYNC)
    group_log.close()
    assert [each.name for each in group_floors(log)] == ["stopped"]


@pytest.mark.parametrize(("holds_ns", "count"), [(_HOUR_NS, 1), (1, 0)])
def test_a_group_that_never_had_a_member_is_idle_since_it_was_created(log: Path, holds_ns: int, count: int) -> None:
    (log / "groups" / "unused").mkdir(parents=True)
    group_log = GroupLog.open(str(log / "groups" / "unused"), GroupClock())
    group_log.set_up(Settings(holds_ns=holds_ns), 0)
    group_log.close()
    assert len(group_floors(log)) == count


@pytest.mark.slow
def test_a_group_that_lags_by_more_bytes_than_it_says_holds_nothing(log: Path) -> None:
    _consume(log, "slow", 1)
    _consume(log, "fast", 6)
    assert _held(log, "35B") == ["fast", "slow"]
    assert _held(log, "10B") == ["fast"]  # two messages of five bytes
    assert [each.number for each in prune(log, consumed=True)] == [1, 2, 3]
    assert _held(log, "10B") == ["fast", "slow"]  # retention removed the others
    assert _held(log, "9B") == []
    with pytest.raises(ValueError, match="no consumer group"):
        prune(log, consumed=True)
