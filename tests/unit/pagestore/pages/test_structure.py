"""The structures in pages: indexes, free pages, and the cache."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from binlog.errors import FullError
from binlog.format.pagestore.index import entries_in
from binlog.format.pagestore.page import pack_page, page_content_bytes
from binlog.pagestore import PageStore, PageStoreOptions, check_page_store
from binlog.pagestore.pages.cache import Cache, Page, PageFile
from binlog.pagestore.pages.generation import FreePages
from tests.support.pagestores import QUEUE, SMALL, contents_after_kill, drain, page_store, peek, put

ROOM = entries_in(page_content_bytes(2048))


def _used_page_count(store: PageStore) -> int:
    return store._free.page_count - store._free.free_count


def _parts(store: PageStore) -> list[int]:
    return [part.valid_count for part in store._content.get(QUEUE).index.parts]


@pytest.mark.slow
def test_a_queue_frees_its_first_pages_as_it_grows(tmp_path: Path) -> None:
    with page_store(tmp_path / "store") as store:
        bodies = [b"%d" % number for number in range(3 * ROOM + 5)]
        put(store, *bodies)
        assert _parts(store) == [ROOM] * 3 + [5]
        assert _used_page_count(store) == 2 + 3 + len(bodies)
        first_page = store._content.get(QUEUE).index.first_page
        with store.transaction() as transaction:
            for body in bodies[: ROOM + 1]:
                message = transaction.get(QUEUE)
                assert message is not None
                assert message.body == body
        assert _parts(store) == [ROOM - 1, ROOM, 5]
        assert store._content.get(QUEUE).index.parts[0].number == first_page
        assert contents_after_kill(store) == {QUEUE: bodies[ROOM + 1 :]}
        assert drain(store) == bodies[ROOM + 1 :]
        assert _parts(store) == [0]
        assert _used_page_count(store) == 2


def test_a_middle_page_is_freed_with_its_last_message(tmp_path: Path) -> None:
    with page_store(tmp_path / "store") as store:
        put(store, *(b"%d" % number for number in range(3 * ROOM)))
        with store.transaction() as transaction:
            for key in range(ROOM + 1, 2 * ROOM + 1):
                transaction.remove(QUEUE, key)
        assert _parts(store) == [ROOM, ROOM]
        wanted = [b"%d" % number for number in range(3 * ROOM) if not ROOM <= number < 2 * ROOM]
        assert contents_after_kill(store) == {QUEUE: wanted}
        assert drain(store) == wanted


def test_keys_are_never_reused_after_the_queue_was_empty(tmp_path: Path) -> None:
    keys = []
    for _ in range(4):
        with page_store(tmp_path) as store:
            put(store, *(b"%d" % number for number in range(ROOM - 10)))
            with store.transaction() as transaction:
                while (message := transaction.get(QUEUE)) is not None:
                    keys.append(message.key)
            assert len(_parts(store)) == 1
    assert keys == [*range(1, 4 * (ROOM - 10) + 1)]


def test_the_lowest_freed_page_is_reused_first(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        put(store, *(b"%d" % number for number in range(20)))
        assert store._free.page_count == 22
        with store.transaction() as transaction:
            for key in (9, 3, 15):
                transaction.remove(QUEUE, key)
        assert [number for number in range(22) if store._free.is_free(number)] == [4, 10, 16]
        put(store, b"20", b"21")
        assert [number for number in range(22) if store._free.is_free(number)] == [16]
        assert store._free.page_count == 22


def test_opening_finds_free_pages_without_reading_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with page_store(tmp_path) as store:
        put(store, *(b"%d" % number for number in range(300)))
        drain(store)
        put(store, b"left")
        states = store._free.states
        assert states.count(b"1") > 250
    reads: list[int] = []
    plain = PageFile.read
    monkeypatch.setattr(PageFile, "read", lambda self, number: reads.append(number) or plain(self, number))  # type: ignore[func-returns-value]
    with PageStore(tmp_path, SMALL) as store:
        assert store._free.states == states
        assert reads == [0]


@pytest.mark.slow
def test_the_root_index_stays_sorted_after_splits(tmp_path: Path) -> None:
    names = [f"{'queue' * (number % 30)}-{number}-ä" for number in range(150)]
    random.Random(7).shuffle(names)
    with PageStore(tmp_path, SMALL) as store:
        for number, name in enumerate(names):
            store.create_queue(name)
            put(store, b"%d" % number, queue=name)
        assert len(store._content.root.pages) > 4
    assert check_page_store(tmp_path) == []
    with PageStore(tmp_path, SMALL) as store:
        assert store.queues == sorted(names)
        assert [peek(store, name) for name in names] == [[b"%d" % number] for number in range(len(names))]
        for name in names[:140]:
            store.delete_queue(name)
        assert store.queues == sorted(names[140:])
    assert check_page_store(tmp_path) == []
    with PageStore(tmp_path, SMALL) as store:
        for name in names[140:]:
            store.delete_queue(name)
        assert store._content.root.pages == [0]
        assert _used_page_count(store) == 1


@pytest.mark.slow
def test_names_at_the_end_fill_each_page_of_the_root_index(tmp_path: Path) -> None:
    with PageStore(tmp_path, SMALL) as store:
        for number in range(300):
            store.create_queue(f"{number:05d}")
        assert len(store._content.root.pages) == -(-300 // ((2048 - 16 - 17) // 18))
        assert store.create_queue("x" * 1024)
    with PageStore(tmp_path, SMALL) as store:
        assert len(store.queues) == 301


@pytest.mark.slow
def test_the_cache_respects_its_limit(tmp_path: Path) -> None:
    with page_store(tmp_path) as store:
        for number in range(500):
            put(store, b"%d" % number)
            assert len(store._cache) <= SMALL.cache_pages
        with store.transaction() as transaction:
            for number in range(500):
                message = transaction.get(QUEUE)
                assert message is not None
                assert message.body == b"%d" % number
                assert len(store._cache) <= SMALL.cache_pages


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """A cache of eight pages."""
    path = tmp_path / "page.db"
    path.write_bytes(b"".join(pack_page(number, b"%d" % number, 2048, 1) for number in range(100)))
    with path.open("r+b") as file:
        import os

        return Cache(PageFile(str(tmp_path), os.dup(file.fileno()), 2048), 8)


def test_the_least_recently_used_page_is_evicted_unless_used_often(cache: Cache) -> None:
    for _ in range(20):
        cache.get(1)
    for number in range(2, 11):
        cache.get(number)
    cache.trim(0)
    assert sorted(cache._pages) == [1, 5, 6, 7, 8, 9, 10]
    for number in range(20, 60):
        cache.get(number)
        cache.trim(0)
    assert 1 not in cache._pages  # its hits are halved each time


def test_a_page_is_not_written_before_its_record_is_on_the_disk(cache: Cache) -> None:
    pinned = []
    for number in range(20):
        page = Page(number, b"changed %d" % number)
        page.is_dirty = True
        page.pinned_until = 1000 + number
        cache.add(page)
        pinned.append(page)
    cache.trim(999)
    assert len(cache) == 20
    assert cache.file.read(0).startswith(b"0\0")
    cache.trim(1009)
    assert len(cache) == 10
    assert cache.file.read(9).startswith(b"changed 9\0")
    assert cache.file.read(10).startswith(b"10\0")


def test_a_free_page_is_found_at_any_position() -> None:
    asked: list[int] = []
    free = FreePages(b"01001", asked.append)
    assert [free.take() for _ in range(4)] == [1, 4, 5, 6]
    assert asked == [5, 6]
    free.release(2)
    free.release(0)
    assert free.free_count == 2
    assert free.states == b"1010000"
    assert [free.take() for _ in range(3)] == [0, 2, 7]


@pytest.mark.slow
def test_a_failed_change_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    with page_store(path) as store:
        store.create_queue("paid")
        put(store, *(b"%d" % number for number in range(2 * ROOM)))
        wanted = peek(store)
        states = store._free.states
        for left in range(8):
            room = [left]

            def ensure(number: int, room: list[int] = room) -> None:
                room[0] -= 1
                if room[0] < 0:
                    raise FullError("no space")

            monkeypatch.setattr(store._free, "_ensure", ensure)
            transaction = store.transaction()
            for key in range(1, ROOM + 1):
                transaction.remove(QUEUE, key)
            for number in range(2 * ROOM):
                transaction.put("paid", b"%d" % number)
            with pytest.raises(FullError):
                transaction.commit()
            assert store._free.states.rstrip(b"1") == states.rstrip(b"1")
            transaction.rollback()
            assert peek(store) == wanted
            assert peek(store, "paid") == []
        monkeypatch.undo()
        assert contents_after_kill(store)[QUEUE] == wanted
        transaction = store.transaction()
        for key in range(1, ROOM + 1):
            transaction.remove(QUEUE, key)
        transaction.put("paid", b"now")
        transaction.commit()
        assert peek(store) == wanted[ROOM:]


def test_a_store_can_have_larger_pages(tmp_path: Path) -> None:
    options = PageStoreOptions(page_bytes=32768, cache_pages=8, log_bytes=100_000)
    with page_store(tmp_path / "store", options) as store:
        put(store, bytes(32_000), bytes(40_000), b"small")
        assert contents_after_kill(store, options) == {QUEUE: [bytes(32_000), bytes(40_000), b"small"]}
    with pytest.raises(ValueError, match="32768"):
        PageStore(tmp_path / "store", PageStoreOptions(page_bytes=2048))
