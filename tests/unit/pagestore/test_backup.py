"""Copies of a store that goes on, and cutting off what is free."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest

from binlog.errors import CorruptError, StateError
from binlog.pagestore import PageStore, Xid, check_page_store
from tests.support.pagestores import QUEUE, SMALL, drain, killed, page_store, peek, put


def test_a_backup_opens_as_a_store_with_all_that_was_committed(tmp_path: Path) -> None:
    with page_store(tmp_path / "store") as store:
        put(store, *(b"%d" % number * 50 for number in range(300)))
        with store.transaction() as transaction:
            for _ in range(100):
                transaction.get(QUEUE)
        prepared = store.transaction()
        prepared.put(QUEUE, b"prepared")
        prepared.prepare(Xid(1, b"x"))
        open_one = store.transaction()
        open_one.get(QUEUE)
        open_one.put(QUEUE, b"open")
        store.backup(tmp_path / "backup")
        open_one.rollback()
        wanted = peek(store)
        assert check_page_store(tmp_path / "backup") == []
    for _ in range(2):
        with PageStore(tmp_path / "backup", SMALL) as backup:
            assert peek(backup) == wanted
            assert [each.xid for each in backup.prepared] == [Xid(1, b"x")]
            states = backup._free.states
    with PageStore(tmp_path / "store", SMALL) as store:
        assert store._free.states == states


def test_who_goes_on_meanwhile_is_in_the_backup_up_to_one_moment(tmp_path: Path) -> None:
    """Each transaction removes one message and puts the next: at each moment there are as many, in their order."""
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


def test_a_backup_that_was_not_finished_is_no_store(tmp_path: Path) -> None:
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


def test_a_damaged_page_is_told_and_no_backup_made_of_it(tmp_path: Path) -> None:
    with page_store(tmp_path / "store") as store:
        put(store, b"one", b"two")
    path = tmp_path / "damaged"
    shutil.copytree(tmp_path / "store", path)
    data = bytearray((path / "page.db").read_bytes())
    data[2 * 2048 + 20] ^= 1
    (path / "page.db").write_bytes(data)
    with PageStore(path, SMALL) as store:
        with pytest.raises(CorruptError):
            store.backup(tmp_path / "backup")
        with pytest.raises(StateError):
            store.backup(tmp_path / "backup")
        put(store, b"three")
    assert not (tmp_path / "backup" / "page.db").exists()


def test_what_is_free_at_the_end_is_cut_off(tmp_path: Path) -> None:
    chance = random.Random(5)
    with page_store(tmp_path / "store") as store:
        put(store, *(chance.randbytes(3000) for _ in range(200)))
        before = (tmp_path / "store" / "page.db").stat().st_size
        with store.transaction() as transaction:
            for key in range(20, 201):
                transaction.remove(QUEUE, key)
        count = store.shrink()
        assert (tmp_path / "store" / "page.db").stat().st_size == count * 2048 < before
        assert not store._free.is_free(count - 1)
        wanted = peek(store)
        put(store, b"behind")
        copy = killed(store)
        assert store.shrink() >= count
    assert check_page_store(copy) == []
    with PageStore(copy, SMALL) as store:
        assert drain(store) == [*wanted, b"behind"]
        assert store.shrink() == 2
