"""Opening a page store after a crash or damage."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from binlog.errors import CorruptError
from binlog.format.pagestore.log import RECORDS_AT, parse_log_start, parse_record
from binlog.pagestore import PageStore, PageStoreOptions, check_page_store
from tests.support.pagestores import QUEUE, SMALL, contents_after_kill, copy_after_kill, drain, page_store, peek, put

_LARGE = PageStoreOptions(cache_pages=8, log_bytes=1 << 20)


def _record_offsets(path: Path) -> list[tuple[int, int]]:
    """Return the offsets of the records in the log."""
    data = (path / "transaction.log").read_bytes()
    start = parse_log_start(data, "log")
    found, at = [], RECORDS_AT
    while True:
        try:
            _, end = parse_record(data, at, start, "log")
        except CorruptError:
            return found
        found.append((at, end))
        at = end


def _change(path: Path, name: str, at: int, data: bytes) -> None:
    with (path / name).open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.slow
def test_torn_pages_are_rebuilt_from_the_log(tmp_path: Path) -> None:
    chance = random.Random(1)
    path = tmp_path / "store"
    with page_store(path, _LARGE) as store:
        put(store, *(b"%d" % number for number in range(150)))
        store.checkpoint()
        for number in range(150, 250):
            put(store, b"%d" % number * chance.randrange(1, 900))
            if number % 3:
                with store.transaction() as transaction:
                    transaction.get(QUEUE)
        wanted = peek(store)
        logged = store._cache.logged.copy()
        copy = copy_after_kill(store)
    assert len(logged) > 100
    size = (copy / "page.db").stat().st_size
    for number in logged:
        for sector in range(4):
            if chance.random() < 0.5 and (number + 1) * 2048 <= size:
                _change(copy, "page.db", number * 2048 + 512 * sector, chance.randbytes(512))
    assert check_page_store(copy) == []
    with PageStore(copy, SMALL) as store:
        assert peek(store) == wanted
    assert check_page_store(copy) == []


@pytest.mark.slow
def test_a_torn_last_record_is_discarded(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with page_store(path, _LARGE) as store:
        for number in range(5):
            put(store, b"%d" % number)
        copy = copy_after_kill(store)
    at, end = _record_offsets(copy)[-1]
    whole = (copy / "transaction.log").read_bytes()
    for truncate in (at, at + 1, at + 20, at + 40, end - 1):
        (copy / "transaction.log").write_bytes(whole[:truncate].ljust(len(whole), b"\xff"))
        assert contents_after_kill(copy) == {QUEUE: [b"0", b"1", b"2", b"3"]}
        (copy / "transaction.log").write_bytes(whole[:truncate])
        assert contents_after_kill(copy) == {QUEUE: [b"0", b"1", b"2", b"3"]}
    (copy / "transaction.log").write_bytes(whole)
    assert contents_after_kill(copy) == {QUEUE: [b"0", b"1", b"2", b"3", b"4"]}


def test_a_damaged_synced_record_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with page_store(path, _LARGE) as store:
        for number in range(5):
            put(store, b"%d" % number)
        copy = copy_after_kill(store)
    for at, end in _record_offsets(copy)[:-1]:
        damaged = path.with_name(f"damaged-{at}")
        shutil.copytree(copy, damaged)
        _change(damaged, "transaction.log", (at + end) // 2, b"\xaa\x55\xaa")
        with pytest.raises(CorruptError) as raised:
            PageStore(damaged, SMALL)
        assert raised.value.offset == at
        assert [problem.offset for problem in check_page_store(damaged)] == [at]


def test_records_of_an_earlier_generation_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with page_store(path, _LARGE) as store:
        for number in range(50):
            put(store, b"%d" % number)
        store.checkpoint()
        assert drain(store) == [b"%d" % number for number in range(50)]
        store.checkpoint()
        put(store, b"left")
        assert (path / "transaction.log").stat().st_size > 4000
        assert contents_after_kill(store) == {QUEUE: [b"left"]}


@pytest.mark.parametrize("name", ["page.db", "transaction.log", "pages-1.free"])
def test_a_store_with_a_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    with page_store(tmp_path / "store") as store:
        put(store, b"one")
        store.checkpoint()
        generation = store._cache.generation
        copy = copy_after_kill(store)
    name = f"pages-{generation % 2}.free" if "free" in name else name
    before = sorted(os.listdir(copy))
    (copy / name).rename(tmp_path / name)
    with pytest.raises((CorruptError, LookupError)):
        PageStore(copy, SMALL)
    (tmp_path / name).rename(copy / name)
    assert sorted(os.listdir(copy)) == before
    assert contents_after_kill(copy) == {QUEUE: [b"one"]}


def test_the_map_of_another_generation_is_refused(tmp_path: Path) -> None:
    with page_store(tmp_path / "store") as store:
        store.checkpoint()
        store.checkpoint()
        copy = copy_after_kill(store)
        generation = store._cache.generation
    names = [f"pages-{(generation + number) % 2}.free" for number in range(2)]
    shutil.copy(copy / names[1], copy / names[0])
    with pytest.raises(CorruptError, match="generation"):
        PageStore(copy, SMALL)
    assert [problem.rule for problem in check_page_store(copy)] == ["generation"]


def test_an_interrupted_creation_is_finished(tmp_path: Path) -> None:
    """Its files appear one after the other."""
    with PageStore(tmp_path / "whole") as store:
        whole = copy_after_kill(store)
    with PageStore(tmp_path / "first", SMALL):
        pass
    names = ["pages-0.free", "pages-1.free", "page.db.new", "transaction.log.new"]
    for count in range(len(names) + 1):
        path = tmp_path / f"begun-{count}"
        path.mkdir()
        for name in names[:count]:
            shutil.copy(whole / name.removesuffix(".new"), path / name)
        with page_store(path) as store:
            put(store, b"one")
            assert drain(store) == [b"one"]
    path = tmp_path / "named"
    shutil.copytree(whole, path)
    (path / "transaction.log").rename(path / "transaction.log.new")
    with page_store(path) as store:
        assert drain(store) == []
