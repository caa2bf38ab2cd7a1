"""The manager: what is in memory, when pages come back, and who has it all."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from binlog.errors import AccessError, BusyError, ClosedError, FullError, StateError
from binlog.paging.manager import PagingManager
from binlog.paging.memory import Held
from binlog.paging.options import PagingOptions, Policy
from tests.support.children import Child
from tests.support.paging import ADDRESS, PAGE_BYTES, numbered, page_all, paging


def _options(
    policy: Policy, address_bytes_max: int | None = 1000, memory_bytes_max: int | None = None
) -> PagingOptions:
    return PagingOptions(
        page_bytes=PAGE_BYTES, policy=policy, address_bytes_max=address_bytes_max, memory_bytes_max=memory_bytes_max
    )


def test_messages_are_counted_until_nobody_refers_to_them(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.FAIL)) as (opened, _):
        manager = opened.manager
        held = manager.admit(ADDRESS, bytes(600), references=2)
        assert held is not None
        assert manager.memory(ADDRESS).used_bytes == 600
        with pytest.raises(FullError):
            manager.admit(ADDRESS, bytes(401))
        held.release()
        held.refer()
        held.release()
        assert manager.memory(ADDRESS).used_bytes == 600
        held.release()
        assert manager.memory(ADDRESS).used_bytes == 0
        with pytest.raises(ValueError, match="nobody refers"):
            held.release()
        assert manager.admit(ADDRESS, bytes(5000)) is not None  # alone it may be larger than the limit


def test_all_addresses_together_have_a_limit_too(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.DROP, None, 1000)) as (opened, store):
        held = opened.manager.admit("another", bytes(900))
        assert held is not None
        assert opened.manager.admit(ADDRESS, bytes(200)) is None
        assert store.dropped_count == 1
        held.release()
        assert opened.manager.admit(ADDRESS, bytes(200)) is not None


def test_who_brings_a_message_waits_for_room(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.BLOCK)) as (opened, _):
        manager = opened.manager
        first = manager.admit(ADDRESS, bytes(900))
        assert first is not None
        admitted: list[Held | None] = []
        thread = threading.Thread(target=lambda: admitted.append(manager.admit(ADDRESS, bytes(901))))
        thread.start()
        assert admitted == []
        first.release()
        thread.join()
        assert [held is not None for held in admitted] == [True]


def test_an_address_goes_to_pages_and_comes_back_as_there_is_room(tmp_path: Path) -> None:
    messages = numbered(200)
    with paging(tmp_path, _options(Policy.PAGE)) as (opened, store):
        manager = opened.manager
        there = threading.Semaphore(0)
        held: list[Held] = []
        at_once: defaultdict[int, int] = defaultdict(int)

        def deliver(address: str, taken: list[bytes], _: int) -> None:
            at_once[threading.get_ident()] += 1
            held.extend(manager.hold(address, message) for message in taken)
            for _ in taken:
                there.release()
            assert manager.memory(ADDRESS).used_bytes <= 500 + PAGE_BYTES

        for message in messages:
            now = manager.admit(ADDRESS, message)
            if now is not None:
                held.append(now)
                there.release()
        assert store.is_paging
        assert len(held) < 30
        manager.depage_to(deliver)
        found = []
        for number in range(200):
            there.acquire()
            found.append(held[number].message)
            held[number].release()
        assert found == messages
        manager.drain()
        assert not store.is_paging
        assert manager.memory(ADDRESS).used_bytes == 0


def test_what_a_delivery_raises_is_told_and_the_page_stays(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.PAGE)) as (opened, store):
        store.start_paging()
        page_all(store, [b"message"])

        def refuse(*_: object) -> None:
            raise RuntimeError("not now")

        opened.manager.depage_to(refuse)
        with pytest.raises(RuntimeError, match="not now"):
            opened.manager.drain()
        found: list[bytes] = []
        assert opened.manager.depage(ADDRESS, lambda _, taken, __: found.extend(taken))
        assert found == [b"message"]


def test_one_process_and_one_object_has_it(tmp_path: Path) -> None:
    with paging(tmp_path):
        with pytest.raises(BusyError):
            PagingManager(tmp_path).start()

        def try_it() -> None:
            with pytest.raises(BusyError):
                PagingManager(tmp_path).start()

        Child(try_it).join()
    with PagingManager(tmp_path) as manager:
        assert manager.addresses == [ADDRESS]


def test_a_forked_child_has_nothing_of_it(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        cursor = opened.manager.cursor(ADDRESS)
        place = store.append(b"message")
        assert place is not None

        def use_it() -> None:
            for use in (
                lambda: store.page(b"child's"),
                store.depage,
                store.sync,
                lambda: opened.manager.store("other"),
                lambda: cursor.ack(place),
                cursor.read,
                opened.manager.begin,
            ):
                with pytest.raises(StateError):
                    use()
            opened.manager.stop()
            os._exit(0)

        Child(use_it).join()
        cursor.ack(place)
        assert store.append(b"another") == place + 1


def test_what_was_stopped_is_of_no_use(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
    for use in (lambda: store.page(b"message"), store.depage, store.sync, lambda: opened.manager.store("other")):
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(StateError):
        PagingManager(tmp_path / "other").store("orders")


def test_without_a_transactional_store_there_are_no_transactions(tmp_path: Path) -> None:
    with PagingManager(tmp_path) as manager:
        store = manager.store(ADDRESS)
        store.start_paging()
        store.page(b"message")
        with pytest.raises(StateError):
            manager.begin()
        with pytest.raises(StateError):
            manager.depage(ADDRESS, lambda *_: None)
        cursor = manager.cursor(ADDRESS)
        run = cursor.read()
        assert run is not None
        cursor.ack(run.place)


def test_an_address_with_a_cursor_is_not_depaged(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, _):
        opened.manager.cursor(ADDRESS)
        with pytest.raises(StateError):
            opened.manager.depage(ADDRESS, lambda *_: None)


def test_a_folder_that_is_not_to_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "no" / "parent"):
        with pytest.raises(AccessError):
            PagingManager(path).start()
