"""Kill: a process that deletes a consumer group dies at each of its system calls.  The next creator finishes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import Writer
from binlog.consumers.control import GroupControl
from binlog.consumers.group_folder import finish_deletions, open_or_create
from binlog.consumers.retention import group_floors, group_names
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.settings import Settings
from stress.crash.preloaded.injector import Kind
from tests.support.preloaded import kill_at_each_call
from tests.support.turns import in_turn

NAME = "billing"


def _create(log: Path) -> bytes:
    """Open the group, or create it; return the UUID of its log."""
    folder, group_log = open_or_create(str(log), NAME, GroupClock())
    with folder:
        group_log.set_up(Settings(), 0)
        group_log.close()
        return group_log.uuid


def _delete(log: Path) -> None:
    GroupControl(log, NAME).delete()


def _delete_and_create(log: Path) -> None:
    _delete(log)
    _create(log)


@pytest.mark.slow
@pytest.mark.parametrize("is_listed", in_turn([False, True]))
def test_a_deletion_killed_at_each_call_is_finished(
    in_memory: Path, is_listed: bool, figure: Callable[[str], None]
) -> None:
    start, log = in_memory / "start", in_memory / "log"
    with Writer(start) as writer:
        writer.append(b"a message")
    before, remained, kills = _create(start), [], 0
    for run in kill_at_each_call(_delete_and_create, start, log, step=4):
        if is_listed:
            finish_deletions(str(log))
            assert {each.name for each in group_floors(log)} <= set(group_names(log))
        after = _create(log)
        remained.append(after == before)
        assert sorted(os.listdir(log / "groups")) in ([".lock", NAME], [NAME])
        assert [tuple(each) for each in group_floors(log)] == [(NAME, 0)]
        kills += run.killed
    assert set(remained) == {False, True}  # it stays, or another group has its name
    assert {Kind.LOCK, Kind.SYNC, Kind.UNLINK} <= set(run.calls)
    figure(f"kill sweep of a group's deletion: {kills} kills, {len(run.calls)} calls")
