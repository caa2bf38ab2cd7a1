"""The paging manager: memory limits, depaging, and ownership."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from binlog.errors import AccessError, BusyError, ClosedError, FullError, PoisonedError, StateError
from binlog.paging.inspection import check_paging
from binlog.paging.manager import PagingManager
from binlog.paging.memory import HeldMessage
from binlog.paging.options import PagingOptions, Policy
from binlog.paging.page import Page, WriterState
from binlog.paging.store import PagingStore
from binlog.storage import directory as directory_module
from tests.support.children import Child
from tests.support.failing import raising
from tests.support.paging import (
    ADDRESS,
    PAGE_BYTES,
    depage_all,
    depage_pages,
    numbered_messages,
    page_all,
    paging,
    read_run,
)

_SECONDS = 20
_A_MOMENT = 0.2


def _options(
    policy: Policy, address_bytes_max: int | None = 1000, memory_bytes_max: int | None = None
) -> PagingOptions:
    return PagingOptions(
        page_bytes=PAGE_BYTES, policy=policy, address_bytes_max=address_bytes_max, memory_bytes_max=memory_bytes_max
    )


def test_messages_count_until_their_last_reference_is_released(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.FAIL)) as (opened, _):
        manager = opened.manager
        held = manager.admit(ADDRESS, bytes(600), references=2)
        assert held is not None
        assert manager.memory(ADDRESS).used_bytes == 600
        with pytest.raises(FullError):
            manager.admit(ADDRESS, bytes(401))
        held.release()
        held.add_reference()
        held.release()
        assert manager.memory(ADDRESS).used_bytes == 600
        held.release()
        assert manager.memory(ADDRESS).used_bytes == 0
        with pytest.raises(ValueError, match="released already"):
            held.release()
        assert manager.admit(ADDRESS, bytes(5000)) is not None  # a single message may exceed the limit


def test_all_addresses_share_a_memory_limit(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.DROP, None, 1000)) as (opened, store):
        held = opened.manager.admit("another", bytes(900))
        assert held is not None
        assert opened.manager.admit(ADDRESS, bytes(200)) is None
        assert store.dropped_count == 1
        held.release()
        assert opened.manager.admit(ADDRESS, bytes(200)) is not None


def test_a_producer_waits_for_memory(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.BLOCK)) as (opened, _):
        manager = opened.manager
        first = manager.admit(ADDRESS, bytes(900))
        assert first is not None
        admitted: list[HeldMessage | None] = []
        thread = threading.Thread(target=lambda: admitted.append(manager.admit(ADDRESS, bytes(901))))
        thread.start()
        assert admitted == []
        first.release()
        thread.join()
        assert [held is not None for held in admitted] == [True]


def test_an_address_pages_and_depages_as_memory_allows(tmp_path: Path) -> None:
    messages = numbered_messages(200)
    with paging(tmp_path, _options(Policy.PAGE)) as (opened, store):
        manager = opened.manager
        there = threading.Semaphore(0)
        held: list[HeldMessage] = []
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


def test_an_exception_of_deliver_is_reported_and_the_page_stays(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.PAGE)) as (opened, store):
        store.start_paging()
        page_all(store, [b"message"])

        opened.manager.depage_to(raising(RuntimeError("not now")))
        with pytest.raises(RuntimeError, match="not now"):
            opened.manager.drain()
        found: list[bytes] = []
        assert opened.manager.depage(ADDRESS, lambda _, taken, __: found.extend(taken))
        assert found == [b"message"]


class HoldingConsumer:
    """Holds the messages that it gets.  at_once_max: the maximum number of concurrent calls."""

    def __init__(self, manager: PagingManager) -> None:
        self._manager = manager
        self._mutex = threading.Lock()
        self._there = threading.Semaphore(0)
        self._at_once = self.at_once_max = 0
        self.held: list[HeldMessage] = []
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self, address: str, taken: list[bytes], _: int) -> None:
        with self._mutex:
            self._at_once += 1
            self.at_once_max = max(self._at_once, self.at_once_max)
        self.begun.release()
        self.go_on.wait(_SECONDS)
        for message in taken:
            self.held.append(self._manager.hold(address, message))
            self._there.release()
        with self._mutex:
            self._at_once -= 1

    def wait(self, count: int) -> None:
        """Wait until this many more messages were delivered."""
        for _ in range(count):
            assert self._there.acquire(timeout=_SECONDS), f"{len(self.held)} messages were given"


def test_released_memory_wakes_other_addresses(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.PAGE, None, 1000)) as (opened, store):
        manager = opened.manager
        delivered = HoldingConsumer(manager)
        delivered.go_on.set()
        manager.depage_to(delivered)
        held = manager.admit("another", bytes(900))
        assert held is not None
        assert manager.admit(ADDRESS, bytes(200)) is None
        manager.drain()
        assert store.is_paging
        held.release()
        delivered.wait(1)
        manager.drain()
        assert not store.is_paging


def test_a_message_paged_after_a_release_is_depaged(tmp_path: Path) -> None:
    with paging(tmp_path, _options(Policy.PAGE)) as (opened, _):
        manager = opened.manager
        delivered = HoldingConsumer(manager)
        delivered.go_on.set()
        manager.depage_to(delivered)
        late = manager.store("late")
        late.start_paging()  # no message is released from here on
        page_all(late, [b"message"])
        delivered.wait(1)
        manager.drain()
        assert not late.is_paging


def test_a_message_during_the_end_of_page_mode_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with paging(tmp_path) as (_, store):
        store.start_paging()
        state = Page.state

        def behind(page: Page) -> WriterState:
            found = state(page)
            monkeypatch.undo()
            assert store.append(b"late") is not None
            return found

        monkeypatch.setattr(Page, "state", behind)
        assert depage_pages(store) == [[b"late"]]
        assert not store.is_paging
        assert store.start_paging()


def test_a_message_in_a_page_taken_at_once_belongs_to_its_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        append = store._append

        def taken_at_once(message: bytes, tx_id: int) -> int | None:
            message_id = append(message, tx_id)
            pages.append(store.depage())
            return message_id

        pages: list[Page | None] = []
        with opened.manager.begin() as transaction:
            monkeypatch.setattr(store, "_append", taken_at_once)
            assert store.page(b"message", transaction)
            monkeypatch.undo()
            assert transaction.count == 1
        (page,) = pages
        assert page is not None
        store.put_back(page)
        found: list[bytes] = []
        assert opened.manager.depage(ADDRESS, lambda _, messages, __: found.extend(messages))
        assert found == [b"message"]


@pytest.mark.slow
def test_the_number_of_threads_limits_concurrent_depaging(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, _):
        manager = opened.manager
        delivered = HoldingConsumer(manager)
        for name in ("one", "two", "three"):
            store = manager.store(name)
            store.start_paging()
            page_all(store, numbered_messages(40))
        manager.depage_to(delivered)
        for _ in range(2):
            assert delivered.begun.acquire(timeout=_SECONDS)
        assert not delivered.begun.acquire(timeout=_A_MOMENT)
        delivered.go_on.set()
        delivered.wait(120)
        manager.drain()
        assert delivered.at_once_max == 2


def test_stop_waits_for_a_running_depage_only(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        page_all(store, numbered_messages(200))
        manager = opened.manager
        delivered = HoldingConsumer(manager)
        manager.depage_to(delivered)
        assert delivered.begun.acquire(timeout=_SECONDS)
        stopping = threading.Thread(target=manager.stop)
        stopping.start()
        while not manager._is_closed:
            time.sleep(0)
        delivered.go_on.set()
        stopping.join()
        given = [held.message for held in delivered.held]
    assert given == numbered_messages(200)[: len(given)]
    assert 0 < len(given) < 40
    with paging(tmp_path) as (opened, store):
        rest = depage_all(opened)
    assert rest == numbered_messages(200)[len(given) :]


def test_paging_has_one_owner(tmp_path: Path) -> None:
    with paging(tmp_path):
        with pytest.raises(BusyError):
            PagingManager(tmp_path).start()

        def try_it() -> None:
            with pytest.raises(BusyError):
                PagingManager(tmp_path).start()

        Child(try_it).join()
    with PagingManager(tmp_path) as manager:
        assert manager.addresses == [ADDRESS]


def test_a_forked_child_cannot_use_the_paging(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        cursor = opened.manager.cursor(ADDRESS)
        message_id = store.append(b"message")
        assert message_id is not None

        def use_it() -> None:
            for use in (
                lambda: store.page(b"child's"),
                store.depage,
                store.sync,
                lambda: opened.manager.store("other"),
                lambda: cursor.ack(message_id),
                cursor.read,
                opened.manager.begin,
            ):
                with pytest.raises(StateError):
                    use()
            opened.manager.stop()
            os._exit(0)

        Child(use_it).join()
        cursor.ack(message_id)
        assert store.append(b"another") == message_id + 1


def test_a_stopped_manager_refuses_every_call(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
    for use in (lambda: store.page(b"message"), store.depage, store.sync, lambda: opened.manager.store("other")):
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(StateError):
        PagingManager(tmp_path / "other").store("orders")


def test_transactions_need_a_transactional_store(tmp_path: Path) -> None:
    with PagingManager(tmp_path) as manager:
        store = manager.store(ADDRESS)
        store.start_paging()
        store.page(b"message")
        with pytest.raises(StateError):
            manager.begin()
        with pytest.raises(StateError):
            manager.depage(ADDRESS, lambda *_: None)
        cursor = manager.cursor(ADDRESS)
        run = read_run(cursor)
        cursor.ack(run.message_id)


def test_an_address_with_a_cursor_cannot_be_depaged(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, _):
        opened.manager.cursor(ADDRESS)
        with pytest.raises(StateError):
            opened.manager.depage(ADDRESS, lambda *_: None)


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "no" / "parent"):
        with pytest.raises(AccessError):
            PagingManager(path).start()


def test_a_failed_start_of_an_address_creates_no_second_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = PagingStore.start

    def fail_once(store: PagingStore) -> None:
        monkeypatch.setattr(PagingStore, "start", start)
        raise AccessError("Too many open files", errno=24)

    with PagingManager(tmp_path) as manager:
        monkeypatch.setattr(PagingStore, "start", fail_once)
        with pytest.raises(AccessError):
            manager.store("a")
        assert manager.store("a").start_paging()
        assert manager.store("a").page(b"message")
    assert check_paging(tmp_path) == []
    with PagingManager(tmp_path) as manager:
        assert manager.store("a").page_count == 1


def test_a_failed_sync_of_a_new_folder_creates_no_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync_directory = directory_module.sync_directory

    def fail(directory_fd: int, path: str) -> None:
        if path == str(tmp_path):
            raise PoisonedError("a sync of the directory failed")
        sync_directory(directory_fd, path)

    with PagingManager(tmp_path) as manager:
        manager.store("there").start_paging()
        monkeypatch.setattr(directory_module, "sync_directory", fail)
        for _ in range(3):
            with pytest.raises(PoisonedError):
                manager.store("a")
        monkeypatch.undo()
        with pytest.raises(PoisonedError):
            manager.store("a")
        with pytest.raises(PoisonedError):
            manager.store("there").page(b"message")
        with pytest.raises(PoisonedError):
            manager.stop()
    assert check_paging(tmp_path) == []
    with PagingManager(tmp_path) as manager:
        assert manager.addresses == ["a", "there"]


def test_a_failed_folder_creation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with PagingManager(tmp_path) as manager:
        before = sorted(os.listdir(tmp_path))
        monkeypatch.setattr(directory_module.Directory, "create", raising(FullError("no space left")))
        with pytest.raises(FullError):
            manager.store("a")
        assert sorted(os.listdir(tmp_path)) == before
        monkeypatch.undo()
        assert manager.store("a").start_paging()
