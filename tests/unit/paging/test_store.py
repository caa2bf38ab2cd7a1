"""The scenarios of JBoss Messaging's tests of a paging store; docs/testing.md lists them."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path

import pytest

from binlog.errors import AccessError, FullError
from binlog.format.paging.page_file import PageLayout
from binlog.paging.options import PagingOptions, Policy
from binlog.paging.page import Page
from binlog.paging.store import PagingStore
from tests.support.failing import raising
from tests.support.journals import flip
from tests.support.namespaces import on_a_small_disk
from tests.support.paging import (
    PAGE_BYTES,
    SMALL,
    copy_after_crash,
    depage_pages,
    flattened,
    numbered_messages,
    page_all,
    page_files,
    page_messages,
    paging,
    read_all,
)


def test_outside_of_page_mode_nothing_is_paged(tmp_path: Path) -> None:
    with paging(tmp_path) as (_, store):
        assert not store.page(b"message")
        assert store.append(b"message") is None
        assert page_files(store) == []


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        store.page(b"message")
        store.start()
        opened.manager.start()
        assert opened.manager.store(store.address) is store
        assert store.is_paging
        assert depage_pages(store) == [[b"message"]]


def test_page_mode_starts_once(tmp_path: Path) -> None:
    with paging(tmp_path) as (_, store):
        assert store.start_paging()
        assert store.page_count == 1
        assert not store.start_paging()
        assert store.page_count == 1


def test_depaging_takes_the_current_page_and_then_ends_page_mode(tmp_path: Path) -> None:
    messages = numbered_messages(10)
    with paging(tmp_path) as (_, store):
        store.start_paging()
        page_all(store, messages)
        page = store.depage()
        assert page is not None
        assert page_messages(page) == messages
        assert [each.state().message_count for each in store.pages] == [0]
        page.delete()
        assert len(page_files(store)) == 1
        assert store.depage() is None
        assert not store.is_paging
        assert page_files(store) == []


def test_pages_come_in_order_until_page_mode_ends(tmp_path: Path) -> None:
    messages = numbered_messages(25)
    with paging(tmp_path) as (_, store):
        store.start_paging()
        page_all(store, messages)
        first = store.depage()
        assert first is not None
        assert store.is_paging
        found = [page_messages(first), *depage_pages(store)]
        assert len(found) == 3
        assert flattened(found) == messages
        assert not store.is_paging


def test_each_start_of_page_mode_begins_a_new_page(tmp_path: Path) -> None:
    with paging(tmp_path) as (_, store):
        ids = []
        for _ in range(3):
            assert store.start_paging()
            ids.append(store.pages[-1].page_id)
            assert store.depage() is None
        assert ids == [1, 2, 3]


@pytest.mark.parametrize("producer_count", [1, 4, 16])
@pytest.mark.slow
@pytest.mark.slow
def test_many_producers_and_one_depager(tmp_path: Path, producer_count: int) -> None:
    each = 1600 // producer_count
    with paging(tmp_path) as (_, store):
        store.start_paging()
        left = threading.Semaphore(0)

        def produce(producer: int) -> None:
            for number in range(each):
                assert store.page(b"%d:%d " % (producer, number) + bytes(number % 90))
            left.release()

        threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(producer_count)]
        for thread in threads:
            thread.start()
        found = defaultdict(list)
        ended = 0
        while ended < producer_count or store.is_paging:
            while left.acquire(blocking=False):
                ended += 1
            page = store.depage() if store.page_count > 1 or ended == producer_count else None
            if page is None:
                continue
            assert Path(page.path).stat().st_size <= PAGE_BYTES + 20  # with the record that ends it
            for message in page_messages(page):
                producer, number = message.split(b" ")[0].split(b":")
                assert message == b"%s:%s " % (producer, number) + bytes(int(number) % 90)
                found[int(producer)].append(int(number))
            page.delete()
        for thread in threads:
            thread.join()
        assert found == {producer: list(range(each)) for producer in range(producer_count)}


def test_messages_of_one_producer_have_ascending_ids(tmp_path: Path) -> None:
    options = PagingOptions(page_bytes=64 << 10)
    messages = numbered_messages(10_000, 20)
    with paging(tmp_path, options) as (_, store):
        store.start_paging()
        message_ids = [store.append(message) for message in messages]
    expected: list[int | None] = []
    with paging(tmp_path, options) as (_, store):
        pages = store.pages
        counts = [page.message_count or 0 for page in pages]
        for page, count in zip(pages, counts, strict=True):
            expected += [page.page_id << 32 | number for number in range(count)]
        assert message_ids == expected
        assert flattened(depage_pages(store)) == messages


def test_a_cursor_can_continue_from_any_message(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        message_ids = [store.append(message) or 0 for message in numbered_messages(100)]
        cursor = opened.manager.cursor(store.address)
        cursor.seek(message_ids[42])
        assert read_all(cursor) == numbered_messages(100)[42:]


def test_page_mode_continues_after_a_restart(tmp_path: Path) -> None:
    messages = numbered_messages(25)
    with paging(tmp_path) as (_, store):
        store.start_paging()
        page_all(store, messages)
        ids = [page.page_id for page in store.pages]
    with paging(tmp_path) as (_, store):
        assert store.is_paging
        assert [page.page_id for page in store.pages] == ids
        assert sum(page.message_count or 0 for page in store.pages) == 25
        assert store.page(b"more")
        assert flattened(depage_pages(store)) == [*messages, b"more"]


def test_a_lone_empty_page_does_not_start_page_mode(tmp_path: Path) -> None:
    with paging(tmp_path / "paging") as (_, store):
        store.start_paging()
        after = copy_after_crash(tmp_path / "paging")
    for path in (tmp_path / "paging", after):
        with paging(path) as (_, store):
            assert not store.is_paging
            assert page_files(store) == []


def test_messages_before_damage_are_read_and_the_page_is_quarantined(tmp_path: Path) -> None:
    with paging(tmp_path) as (_, store):
        store.start_paging()
        page_all(store, numbered_messages(10))
        (file,) = page_files(store)
    damaged_at = file.read_bytes().index(numbered_messages(10)[6])
    flip(file, damaged_at)
    with paging(tmp_path) as (_, store):
        page = store.depage()
        assert page is not None
        assert page_messages(page) == numbered_messages(10)[:6]
        assert page.problem is not None
        assert (page.problem.path, page.problem.rule) == (str(file), "page_record")
        assert damaged_at - 20 == page.problem.offset
        page.delete()
        assert not file.exists()
        assert file.with_suffix(".invalidPage").stat().st_size > damaged_at


@pytest.mark.parametrize("left", [1, 19, 21, 60])
def test_nothing_is_appended_after_a_torn_message(tmp_path: Path, left: int) -> None:
    with paging(tmp_path / "paging") as (_, store):
        store.start_paging()
        page_all(store, numbered_messages(3))
        last_at = page_files(store)[0].stat().st_size
        store.page(b"was being written" * 5)
        path = copy_after_crash(tmp_path / "paging")
    (file,) = page_files(path)
    with file.open("r+b") as opened:
        opened.truncate(last_at + left)
    with paging(path) as (_, store):
        assert store.page(b"new")
        assert file.stat().st_size == last_at + left
        assert len(page_files(store)) == 2
        first, second = store.depage(), store.depage()
        assert first is not None
        assert second is not None
        assert (page_messages(first), page_messages(second)) == (numbered_messages(3), [b"new"])
        assert first.problem is None
        first.delete()
        assert not file.with_suffix(".invalidPage").exists()


@pytest.mark.parametrize("left", [0, 7, 40])
def test_pages_truncated_to_nothing_are_ignored(tmp_path: Path, left: int) -> None:
    messages = numbered_messages(40)
    with paging(tmp_path) as (_, store):
        store.start_paging()
        page_all(store, messages)
        files = page_files(store)
        counts = [page.message_count or page.state().message_count for page in store.pages]
    assert len(files) == 4
    for file in (files[0], files[2]):
        with file.open("r+b") as opened:
            opened.truncate(left)
    with paging(tmp_path) as (_, store):
        assert [page.page_id for page in store.pages] == [2, 4]
        second = messages[counts[0] :][: counts[1]]
        assert depage_pages(store) == [second, messages[-counts[3] :]]
        assert page_files(store) == []


@pytest.mark.parametrize("message_bytes", [0, PAGE_BYTES, 5 * PAGE_BYTES, 3 << 20])
def test_a_message_larger_than_a_page_gets_its_own(tmp_path: Path, message_bytes: int) -> None:
    large = bytes(message_bytes)
    with paging(tmp_path) as (_, store):
        store.start_paging()
        for message in (b"before", large, b"after"):
            assert store.page(message)
        expected = [[b"before"], [large], [b"after"]] if message_bytes else [[b"before", b"", b"after"]]
        assert depage_pages(store) == expected


def test_messages_are_dropped_or_refused_at_the_page_limit(tmp_path: Path) -> None:
    for policy in (Policy.DROP, Policy.FAIL):
        options = PagingOptions(page_bytes=PAGE_BYTES, page_count_max=2, full_policy=policy)
        with paging(tmp_path / policy.value, options) as (_, store):
            store.start_paging()
            if policy is Policy.DROP:
                page_all(store, numbered_messages(40))
            else:
                with pytest.raises(FullError):
                    page_all(store, numbered_messages(40))
            assert store.page_count == 2
            kept = flattened(list(map(page_messages, store.pages)))
            assert kept == numbered_messages(40)[: len(kept)]
            assert store.dropped_count == (40 - len(kept) if policy is Policy.DROP else 0)
            first = store.depage()
            assert first is not None
            assert store.page(b"there is room again")


def test_a_producer_waits_for_a_page_to_be_removed(tmp_path: Path) -> None:
    options = PagingOptions(page_bytes=PAGE_BYTES, page_count_max=2, full_policy=Policy.BLOCK)
    with paging(tmp_path, options) as (_, store):
        store.start_paging()
        thread = threading.Thread(target=lambda: [store.page(message) for message in numbered_messages(60)])
        thread.start()
        found: list[bytes] = []
        while len(found) < 60:
            if thread.is_alive() and store.page_count < 2:
                continue
            assert store.page_count <= 2
            if page := store.depage():
                found += page_messages(page)
        thread.join()
        assert found == numbered_messages(60)


def test_a_failed_page_creation_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    with paging(tmp_path) as (_, store):
        store.start_paging()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Page, "create", raising(AccessError("Permission denied", errno=13)))
            with pytest.raises(AccessError):
                page_all(store, numbered_messages(100))
        kept = flattened(list(map(page_messages, store.pages)))
        assert 0 < len(kept) < 100
        assert store.page(b"later")
        assert flattened(depage_pages(store)) == [*kept, b"later"]


def _fits(store: PagingStore, message: bytes) -> bool:
    try:
        return store.page(message)
    except FullError:
        return False


def _fill_the_disk(disk: Path) -> None:
    options = PagingOptions(page_bytes=256 << 10)
    filler = disk / "filler"
    filler.write_bytes(bytes(1 << 19))
    messages = [b"%d " % number + bytes(5000) for number in range(1000)]
    kept = 0
    with paging(disk / "paging", options) as (_, store):
        store.start_paging()
        while kept < len(messages) and _fits(store, messages[kept]):
            kept += 1
        filler.unlink()
        assert store.page(messages[kept])
        assert 100 < kept < len(messages)
    with paging(disk / "paging", options) as (_, store):
        assert flattened(depage_pages(store)) == messages[: kept + 1]
        assert store.problems == []


@pytest.mark.slow
def test_a_full_disk_refuses_messages_and_keeps_earlier_ones(tmp_path: Path) -> None:
    on_a_small_disk(tmp_path, lambda: _fill_the_disk(tmp_path))


def test_an_address_keeps_its_layout(tmp_path: Path) -> None:
    jbm = PagingOptions(page_bytes=PAGE_BYTES, layout=PageLayout.JBM)
    with paging(tmp_path, jbm) as (_, store):
        store.start_paging()
        store.page(b"hello")
        assert page_files(store)[0].read_bytes() == b"{\0\0\0\x0d" + b"\xff" * 8 + b"hello}"
    with paging(tmp_path, SMALL) as (_, store):
        store.page(b"again")
        assert page_files(store)[1].read_bytes()[:1] == b"{"
        assert depage_pages(store) == [[b"hello"], [b"again"]]
