"""Acknowledgements: durability, cost, and failures."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from pathlib import Path

import pytest

from binlog import Mode, open_queue
from binlog.errors import ClosedError, FullError, GoneError, PoisonedError
from binlog.format.paging.names import ACKS_EXTENSION, PAGE_EXTENSION
from binlog.format.paging.page_file import PageLayout
from binlog.paging import addresses as addresses_module
from binlog.paging.addresses import AddressFolder, Commit
from binlog.paging.inspection import check_paging
from binlog.paging.manager import PagingManager
from binlog.paging.options import PagingOptions
from binlog.storage import directory as directory_module
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.namespaces import on_a_small_disk
from tests.support.paging import (
    ADDRESS,
    SMALL,
    MemoryStore,
    copy_after_crash,
    numbered_messages,
    page_all,
    page_files,
    paging,
    read_all,
    read_run,
)
from tests.support.queues import bodies, get_all

_ONE_A_PAGE = [b"%d " % number + bytes(1000) for number in range(100)]


def _first_message_id(page_id: int) -> int:
    return page_id << 32


@pytest.mark.slow
def test_an_acknowledgement_during_close_is_durable_or_refused(tmp_path: Path) -> None:
    raised: list[BaseException] = []
    done = threading.Event()
    with contextlib.ExitStack() as closing, pytest.MonkeyPatch.context() as patch:
        opened, store = closing.enter_context(paging(tmp_path))
        store.start_paging()
        page_all(store, numbered_messages(3))
        cursor = opened.manager.cursor(ADDRESS)
        cursor.ack(_first_message_id(1))

        def acknowledge() -> None:
            try:
                cursor.ack(_first_message_id(1) + 1)
                cursor.sync()
            except ClosedError as error:
                raised.append(error)
            done.set()

        acknowledging = threading.Thread(target=acknowledge)
        sync = addresses_module.sync
        synced: list[int] = []

        def sync_and_acknowledge(fd: int, path: str) -> None:
            sync(fd, path)
            if not path.endswith(ACKS_EXTENSION):
                return
            synced.append(os.fstat(fd).st_size)
            if len(synced) == 1:
                acknowledging.start()
                done.wait(0.3)  # it need not end during the test

        patch.setattr(addresses_module, "sync", sync_and_acknowledge)
        closing.close()
        acknowledging.join()
    (acks,) = tmp_path.glob("*/*.acks")
    assert acks.stat().st_size == synced[-1]
    assert raised or len(synced) > 1


def test_a_failed_directory_sync_poisons_the_paging(tmp_path: Path) -> None:
    """The kernel reports the failure once, so a later sync would seem to succeed."""
    for fail_at in ("the name of acknowledgements", "the removal of a page", "the end of page mode"):
        _fail_directory(tmp_path / fail_at, fail_at)


def _fail_directory(path: Path, fail_at: str) -> None:
    with contextlib.ExitStack() as closing, pytest.MonkeyPatch.context() as patch:
        opened, store = closing.enter_context(paging(path))
        store.start_paging()
        page_all(store, _ONE_A_PAGE[:4])
        store.sync()
        opened.manager.drain()
        sync_directory = directory_module.sync_directory
        calls = 0

        def fail_once(fd: int, where: str) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise PoisonedError("a sync of the directory failed")
            sync_directory(fd, where)

        patch.setattr(directory_module, "sync_directory", fail_once)
        if fail_at == "the end of page mode":
            for _ in range(4):
                assert opened.manager.depage(ADDRESS, lambda *_: None)
            with pytest.raises(PoisonedError):
                opened.manager.depage(ADDRESS, lambda *_: None)
            with pytest.raises(PoisonedError):
                store.start_paging()
        else:
            cursor = opened.manager.cursor(ADDRESS)
            if fail_at == "the name of acknowledgements":
                cursor.ack(_first_message_id(4))  # this page takes more messages
                with pytest.raises(PoisonedError):
                    cursor.sync()
            else:
                cursor.ack(_first_message_id(1))
            with contextlib.suppress(PoisonedError):
                opened.manager.drain()
            with pytest.raises(PoisonedError):
                store.page(b"more")
            with pytest.raises(PoisonedError):
                cursor.ack(_first_message_id(2))
            with pytest.raises(PoisonedError):
                cursor.sync()
        with pytest.raises(PoisonedError):
            store.folder.sync()
        assert calls == 1
        with contextlib.suppress(PoisonedError):
            closing.close()


def _acknowledge_on_a_full_disk(disk: Path) -> None:
    filler = disk / "filler"
    with paging(disk / "paging") as (opened, store):
        store.start_paging()
        page_all(store, numbered_messages(5))
        cursor = opened.manager.cursor(ADDRESS)
        _fill(filler)
        for _ in range(3):
            with pytest.raises(FullError):
                cursor.ack(_first_message_id(1))
        filler.unlink()
        cursor.ack(_first_message_id(1))
        cursor.sync()
    with paging(disk / "paging") as (opened, store):
        assert read_run(opened.manager.cursor(ADDRESS)).messages == numbered_messages(5)[1:]
        assert store.problems == []


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.slow
def test_a_full_disk_refuses_an_acknowledgement_until_there_is_room(tmp_path: Path) -> None:
    on_a_small_disk(tmp_path, lambda: _acknowledge_on_a_full_disk(tmp_path))


class _FullStore(MemoryStore):
    """A store without room while `is_full` is set."""

    is_full = False

    def commit(self, tx_id: int) -> None:
        if self.is_full:
            raise FullError("no space left")
        super().commit(tx_id)

    def append_delete(self, record_id: int) -> None:
        if self.is_full:
            raise FullError("no space left")
        super().append_delete(record_id)


def test_a_page_whose_removal_has_no_room_is_removed_later(tmp_path: Path) -> None:
    records = _FullStore()
    with PagingManager(tmp_path, SMALL, store=records) as manager:
        store = manager.store(ADDRESS)
        store.start_paging()
        cursor = manager.cursor(ADDRESS)
        with manager.begin() as transaction:
            for message in _ONE_A_PAGE[:4]:
                store.page(message, transaction)
        records.is_full = True
        cursor.ack(_first_message_id(1))
        manager.drain()
        assert len(page_files(store)) == 4
        records.is_full = False
        cursor.ack(_first_message_id(2))
        manager.drain()
        assert len(page_files(store)) == 2
        assert manager.transactions.counts == {transaction.tx_id: 2}
        records.is_full = True
        cursor.ack(_first_message_id(3))
        manager.drain()
        records.is_full = False
    with PagingManager(tmp_path, SMALL, store=records, stored=records) as manager:
        cursor = manager.cursor(ADDRESS)
        run = read_run(cursor)
        assert run.messages == _ONE_A_PAGE[3:4]
        cursor.ack(run.message_id)
        assert cursor.read() is None
        manager.drain()
        assert page_files(tmp_path) == []
    with PagingManager(tmp_path, SMALL, store=records, stored=records):
        assert records.records == []


@pytest.mark.slow
def test_the_number_of_open_acknowledgement_files_is_limited(tmp_path: Path) -> None:
    messages = [b"%d" % number + bytes(450) for number in range(400)]  # two in a page
    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        page_all(store, messages)
        store.sync()
        opened.manager.drain()
        cursor = opened.manager.cursor(ADDRESS)
        before = descriptors_before()
        assert store.page_count == 200
        for page_id in range(1, 201):
            cursor.ack(_first_message_id(page_id))
        assert count_descriptors() - before <= 64
        cursor.ack(_first_message_id(1) + 1)
        opened.manager.drain()
        after = copy_after_crash(tmp_path / "paging")
    assert count_descriptors() < before
    before = descriptors_before()
    with paging(after) as (opened, store):
        cursor = opened.manager.cursor(ADDRESS)
        found = read_all(cursor)
        assert found == messages[3::2]
        assert count_descriptors() - before < 30


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files of acknowledgements that are synced."""
    return _synced(monkeypatch, ACKS_EXTENSION)


def _synced(monkeypatch: pytest.MonkeyPatch, end: str) -> list[str]:
    """Record the names of synced files with this extension."""
    names: list[str] = []
    sync_file = AddressFolder.sync_file

    def note(folder: AddressFolder, fd: int, path: str, commit: Commit | None = None) -> None:
        if path.endswith(end):
            names.append(os.path.basename(path))
        sync_file(folder, fd, path, commit)

    monkeypatch.setattr(AddressFolder, "sync_file", note)
    return names


def test_sync_touches_only_files_with_new_acknowledgements(tmp_path: Path, synced: list[str]) -> None:
    with open_queue(tmp_path / "queue", mode=Mode.FLUSH, options=PagingOptions(page_bytes=1024)) as queue:
        for message in [b"%d" % number + bytes(450) for number in range(20)]:
            queue.put(message)
        messages = [queue.get() for _ in range(20)]
        for message in messages[::2]:
            queue.ack(message)
        queue.sync()
        assert len(synced) == 10
        synced.clear()
        queue.ack(messages[3], mode=Mode.SYNC)
        assert synced in (["000000002.acks"], [])  # its page may be removed already, durably
        queue.sync()
        assert len(synced) <= 1
        assert messages[3].message_id >> 32 == 2


def test_acknowledgements_of_an_earlier_process_are_synced_before_they_count(tmp_path: Path, synced: list[str]) -> None:
    with open_queue(tmp_path / "queue", mode=Mode.FLUSH) as queue:
        for message in numbered_messages(5):
            queue.put(message)
        queue.ack(queue.get())
        after = copy_after_crash(tmp_path / "queue")
    synced.clear()
    with open_queue(after, mode=Mode.FLUSH) as queue:
        assert queue.get().body == numbered_messages(5)[1]
        assert synced == ["000000001.acks"]


def test_pages_of_an_earlier_process_are_synced_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_queue(tmp_path / "queue", mode=Mode.FLUSH, options=PagingOptions(page_bytes=1024)) as queue:
        for message in numbered_messages(40):
            queue.put(message)
        queue.sync()
        after = copy_after_crash(tmp_path / "queue")
    synced = _synced(monkeypatch, PAGE_EXTENSION)
    names = [file.name for file in page_files(after)]
    assert len(names) == 4
    with open_queue(after, mode=Mode.FLUSH):
        assert synced == names


def test_acknowledging_again_during_a_removal_creates_no_file(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        page_all(store, [b"%d" % number + bytes(450) for number in range(3)])
        cursor = opened.manager.cursor(ADDRESS)
        cursor.ack(_first_message_id(1))
        acks = cursor._acks[1]
        cursor.ack(_first_message_id(1) + 1)
        opened.manager.drain()
        with pytest.raises(GoneError):
            acks.add(0, 1)
        assert list(tmp_path.glob("*/*.acks")) == []


def test_acknowledgements_of_lost_messages_apply_to_no_other_message(tmp_path: Path) -> None:
    """The acknowledgements were synced, but the end of their page was not."""
    with open_queue(tmp_path / "queue", mode=Mode.FLUSH) as opened:
        for body in bodies(10):
            opened.put(body)
        messages = [opened.get_nowait() for _ in range(10)]
        for message in messages[5:]:
            opened.ack(message, mode=Mode.SYNC)
        died = copy_after_crash(tmp_path / "queue")
    (page,) = died.glob(f"*/*{PAGE_EXTENSION}")
    os.truncate(page, page.read_bytes().index(bodies(1, first=5)[0]))
    for _ in range(2):
        with open_queue(died) as opened:
            assert [opened.get_nowait().body for _ in range(5)] == bodies(5)
            assert opened.empty()
            with pytest.raises(queue.Empty):
                opened.get_nowait()
    with open_queue(died) as opened:
        assert get_all(opened) == bodies(5)
        assert get_all(opened) == []
    assert not list(died.glob(f"*/*{PAGE_EXTENSION}"))


@pytest.mark.parametrize("left", ["page", "acks"])
def test_acknowledgements_do_not_apply_to_a_later_page_of_another_program(tmp_path: Path, left: str) -> None:
    """JBoss Messaging restarts its page numbers at 1, and ignores the files beside them."""
    options = PagingOptions(page_bytes=4096, layout=PageLayout.JBM)
    with paging(tmp_path, options) as (opened, store):
        store.start_paging()
        for number in range(5):
            store.page(b"ours %d" % number)
        cursor = opened.manager.cursor(ADDRESS)
        run = read_run(cursor)
        cursor.ack(run.message_id, 3)
    (page,) = tmp_path.glob("*/000000001.page")
    if left == "acks":  # of a page that another process acknowledged completely before it died
        page.unlink()
    theirs = [
        b"{" + (8 + len(body)).to_bytes(4) + b"\xff" * 8 + body + b"}" for body in (b"one", b"two", b"three", b"4")
    ]
    page.write_bytes(b"".join(theirs))
    assert [problem.rule for problem in check_paging(tmp_path)] == ["acks_header"]
    with paging(tmp_path, options) as (opened, _):
        assert read_run(opened.manager.cursor(ADDRESS)).messages == [b"one", b"two", b"three", b"4"]


def test_acknowledgements_of_a_growing_jboss_messaging_page_count(tmp_path: Path) -> None:
    options = PagingOptions(page_bytes=4096, layout=PageLayout.JBM)
    with paging(tmp_path, options) as (opened, store):
        store.start_paging()
        cursor = opened.manager.cursor(ADDRESS)
        store.page(b"0")
        run = read_run(cursor)
        cursor.ack(run.message_id)
        for number in range(1, 5):
            store.page(b"%d" % number)
        died = copy_after_crash(tmp_path)
    for path in (died, tmp_path):
        assert check_paging(path) == []
        with paging(path, options) as (opened, _):
            assert read_run(opened.manager.cursor(ADDRESS)).messages == [b"1", b"2", b"3", b"4"]
