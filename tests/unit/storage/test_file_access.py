"""New files of the engines get the owner, group and mode of the files beside them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog.journal import Journal
from binlog.pagestore import PageStore
from binlog.storage.file_access import access_beside, access_of_directory
from binlog.storage.files import create_file
from tests.support.stores import append_numbers
from tests.support.users import GROUP, USER, access, folder_of_user, needs_root


def _journal(path: Path) -> None:
    with Journal(path) as journal:
        journal.load()
        journal.append_add(journal.new_id(), 1, b"record")


def _queue(path: Path) -> None:
    with binlog.open_queue(path, memory_bytes=1 << 16) as queue:
        for _ in range(40):
            queue.put(b"x" * 8192)


def _page_store(path: Path) -> None:
    with PageStore(path) as store:
        store.create_queue("q")


def _commit_log(path: Path) -> None:
    append_numbers(path, 0, 3)


@needs_root
@pytest.mark.parametrize("make", [_journal, _queue, _page_store, _commit_log], ids=lambda make: make.__name__)
def test_files_that_root_makes_belong_to_the_folders_owner(make: Callable[[Path], None]) -> None:
    with folder_of_user() as path:
        make(path)
        found = {str(each.relative_to(path)): access(each)[:2] for each in path.rglob("*")}
        assert len(found) > 1
        assert found == dict.fromkeys(found, (USER, GROUP))


@pytest.mark.parametrize("make", [_journal, _queue, _page_store, _commit_log], ids=lambda make: make.__name__)
def test_files_of_an_engine_have_mode_0640_regardless_of_the_umask(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    before = os.umask(0o077)
    try:
        make(tmp_path)
    finally:
        os.umask(before)
    assert {access(each)[2] for each in tmp_path.rglob("*") if each.is_file()} == {0o640}


def test_a_new_file_is_like_the_newest_one_beside_it(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert access_beside(fd) == access_of_directory(fd)
        for mode in (0o600, 0o644, 0o660):
            name = f"{mode:o}"
            os.close(create_file(fd, name, name, access_of_directory(fd, mode)))
            assert access(tmp_path / name)[2] == mode
            os.chmod(tmp_path / name, mode)  # the newest by its change of state
            assert access_beside(fd).mode in (0o600, 0o644, 0o660)
        os.unlink(tmp_path / "600")
        os.unlink(tmp_path / "644")
        assert access_beside(fd).mode == 0o660
    finally:
        os.close(fd)
