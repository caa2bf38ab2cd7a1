"""Backups of a store in use, and shrinking."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from binlog.errors import CorruptError, StateError
from binlog.pagestore import PageStore, check_page_store
from tests.support.journals import flip
from tests.support.pagestores import QUEUE, SMALL, drain, page_store, put


@pytest.mark.slow
def test_a_backup_of_a_store_in_use_is_the_state_of_one_moment(tmp_path: Path) -> None:
    """Each transaction removes one message and puts the next, so the queue always has the same number, in order."""
    stop = threading.Event()
    with page_store(tmp_path / "store") as store:
        put(store, *(b"%d" % number for number in range(200)))

        def go_on() -> None:
            number = 200
            while not stop.is_set():
                with store.transaction() as transaction:
                    transaction.get(QUEUE)
                    transaction.put(QUEUE, b"%d" % number)
                number += 1

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            for number in range(5):
                store.backup(tmp_path / f"backup-{number}")
        finally:
            stop.set()
            thread.join()
    for number in range(5):
        path = tmp_path / f"backup-{number}"
        assert check_page_store(path) == []
        with PageStore(path, SMALL) as backup:
            numbers = [int(body) for body in drain(backup)]
        assert numbers == [*range(numbers[0], numbers[0] + 200)]


def test_an_unfinished_backup_is_refused_as_a_store(tmp_path: Path) -> None:
    with page_store(tmp_path / "store") as store:
        put(store, b"one", b"two")
        store.checkpoint()
        store.backup(tmp_path / "backup")
    for name in ("backup", "store"):
        with pytest.raises(StateError), page_store(tmp_path / "other") as store:
            store.backup(tmp_path / name)
    (tmp_path / "backup" / "transaction.log").unlink()
    (tmp_path / "backup" / "page.db").rename(tmp_path / "backup" / "page.db.backup")
    with pytest.raises(CorruptError, match="not finished"):
        PageStore(tmp_path / "backup", SMALL)


def test_a_damaged_page_fails_the_backup(tmp_path: Path) -> None:
    with page_store(tmp_path / "store") as store:
        put(store, b"one", b"two")
    path = tmp_path / "damaged"
    shutil.copytree(tmp_path / "store", path)
    flip(path / "page.db", 2 * 2048 + 20)
    with PageStore(path, SMALL) as store:
        with pytest.raises(CorruptError):
            store.backup(tmp_path / "backup")
        with pytest.raises(StateError):
            store.backup(tmp_path / "backup")
        put(store, b"three")
    assert not (tmp_path / "backup" / "page.db").exists()
