"""The log of a group in one process: its checkpoints, its place in the order, and records that are none of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlog import CorruptError, Reader, VersionError, Writer, stat
from binlog.consumers.state import group_log
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_log import GroupLog
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.operation import (
    Kind,
    MessageFacts,
    Operation,
    Setting,
    Window,
    group_seed,
    pack_operation,
)


def _open(path: Path) -> GroupLog:
    path.mkdir(exist_ok=True)
    log = GroupLog.open(str(path), GroupClock())
    log.set_up(Settings(), 0)
    return log


def _name_messages(log: GroupLog, count: int) -> None:
    for _ in range(count):
        log.submit([(Kind.WINDOW, Window(log.state.known_end, 1, (1, 256), 0))], anonymous=True)


def test_two_processes_that_create_a_group_make_one(tmp_path: Path) -> None:
    one, two = GroupLog.open(str(tmp_path), GroupClock()), GroupLog.open(str(tmp_path), GroupClock())
    one.set_up(Settings(deliveries_max=3), 0)
    two.submit([(Kind.SETTINGS, {Setting.START: 7, Setting.DELIVERIES_MAX: 5})], anonymous=True)
    one.catch_up()
    assert one.state.settings.deliveries_max == two.state.settings.deliveries_max == 3
    one.close()
    two.close()


def test_a_process_begins_with_the_newest_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_log, "_FILE_BYTES", 4096)
    monkeypatch.setattr(group_log, "_HISTORY_BYTES", 0)
    log = _open(tmp_path / "group")
    beside = _open(tmp_path / "group")
    for _ in range(5):
        _name_messages(log, 60)
        beside.catch_up()  # compares each checkpoint with its own state
    assert len(stat(tmp_path / "group").files) < 4
    again = _open(tmp_path / "group")
    assert again.state.known_end == 300
    assert again.state.pack() == log.state.pack() == beside.state.pack()
    for each in (log, beside, again):
        each.close()


@pytest.mark.slow
def test_checkpoints_that_are_larger_than_a_file_do_not_fill_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_log, "_FILE_BYTES", 4096)
    log = _open(tmp_path)
    facts = (MessageFacts(due_ns=(1 << 64) - 1),) * 1000
    log.submit([(Kind.WINDOW, Window(0, len(facts), (1, 256), 0, facts))], anonymous=True)
    for _ in range(5000):
        log.submit([(Kind.PAUSE, None)], anonymous=True)
    sizes = [len(record.data) for record in Reader(tmp_path)]
    checkpoint_bytes = len(log.state.pack())
    assert checkpoint_bytes > 10 * 4096
    checkpoints = [size for size in sizes if size >= checkpoint_bytes]
    assert len(checkpoints) > 1
    assert sum(checkpoints) < 2 * (sum(sizes) - sum(checkpoints))
    log.close()
    again = _open(tmp_path)
    assert again.state.scheduled_count == 1000
    again.close()


def test_a_checkpoint_that_differs_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_log, "_FILE_BYTES", 4096)
    log, other = _open(tmp_path), _open(tmp_path)
    other.state.apply(pack_operation(Operation(sections=[(Kind.PAUSE, None)]), group_seed(other.uuid)))
    _name_messages(log, 100)
    with pytest.raises(CorruptError, match="group_state"):
        other.catch_up()
    log.close()
    other.close()


def test_a_record_that_is_no_operation_of_the_group_is_reported(tmp_path: Path) -> None:
    log = _open(tmp_path)
    with Writer(tmp_path) as writer:
        writer.append(b"hello")
    with pytest.raises(CorruptError, match="no operation of this group"):
        log.catch_up()
    log.close()


def test_a_group_with_later_rules_is_refused(tmp_path: Path) -> None:
    log = GroupLog.open(str(tmp_path), GroupClock())
    log.set_up(Settings(rules=2), 0)
    log.close()
    with pytest.raises(VersionError, match="version 2 of the rules"):
        GroupLog.open(str(tmp_path), GroupClock())
