"""The directory of a group after a deletion that did not end: the next creator, or a listing, finishes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog.consumers.group_folder import finish_deletion, finish_deletions, open_existing, open_or_create
from binlog.consumers.inspection.stat import groups
from binlog.consumers.retention import group_floors, group_names
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_log import GroupLog
from binlog.consumers.state.settings import Settings
from binlog.errors import NotFoundError
from binlog.format.consumers.operation import Kind
from binlog.storage.mode import Mode

NAME = "billing"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A log with a deleted group; the directory still has its name."""
    folder, group_log = open_or_create(str(tmp_path), NAME, GroupClock())
    with folder:
        group_log.set_up(Settings(), 0)
        group_log.submit([(Kind.DELETED, None)], anonymous=True, mode=Mode.SYNC)
        group_log.close()
    yield tmp_path
    assert not [name for name in os.listdir(tmp_path / "groups") if name.startswith(".deleted")]


def _uuid_of_new_group(log: Path) -> bytes:
    folder, group_log = open_or_create(str(log), NAME, GroupClock())
    with folder:
        assert not group_log.state.is_created
        group_log.set_up(Settings(), 0)
        group_log.close()
        return group_log.uuid


def test_the_next_creator_makes_another_group(log: Path) -> None:
    assert group_floors(log) == []
    with pytest.raises(NotFoundError):
        open_existing(str(log), NAME, GroupClock())
    uuid = _uuid_of_new_group(log)
    folder, group_log = open_existing(str(log), NAME, GroupClock())
    with folder:
        assert group_log.uuid == uuid
        group_log.close()
    assert group_names(log) == [NAME]


def test_a_directory_that_was_renamed_is_no_group_and_is_removed(log: Path) -> None:
    os.rename(log / "groups" / NAME, log / "groups" / ".deleted-0123")
    assert group_names(log) == []
    finish_deletions(str(log))
    assert os.listdir(log / "groups") == [".lock"]


def test_a_listing_finishes_a_deletion(log: Path) -> None:
    assert group_names(log) == [NAME]
    assert groups(log) == []
    assert group_names(log) == []
    finish_deletions(str(log))


def test_a_group_that_was_not_deleted_stays(log: Path) -> None:
    uuid = _uuid_of_new_group(log)
    finish_deletion(str(log), NAME)
    finish_deletions(str(log))
    folder, group_log = open_existing(str(log), NAME, GroupClock())
    with folder:
        assert group_log.uuid == uuid
        group_log.close()


@pytest.mark.slow
def test_of_many_processes_that_create_the_group_again_each_has_the_same_one(log: Path) -> None:
    def create() -> bytes:
        folder, group_log = open_or_create(str(log), NAME, GroupClock())
        with folder:
            group_log.set_up(Settings(), 0)
            group_log.close()
            return group_log.uuid

    with ThreadPoolExecutor(6) as pool:
        found = [each.result() for each in [pool.submit(create) for _ in range(6)]]
    assert len(set(found)) == 1


def test_a_log_without_groups_has_nothing_to_finish(tmp_path: Path) -> None:
    finish_deletion(str(tmp_path), NAME)
    finish_deletions(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_a_directory_without_an_operation_is_made_a_group(tmp_path: Path) -> None:
    (tmp_path / "groups" / NAME).mkdir(parents=True)
    GroupLog.open(str(tmp_path / "groups" / NAME), GroupClock()).close()
    with pytest.raises(NotFoundError):
        open_existing(str(tmp_path), NAME, GroupClock())
    assert _uuid_of_new_group(tmp_path)
