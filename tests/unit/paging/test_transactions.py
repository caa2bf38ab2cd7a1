"""Messages of transactions, and depaging in transactions; docs/testing.md lists the scenarios."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.errors import ClosedError, PoisonedError, StateError
from binlog.format.paging.page_file import PageLayout
from binlog.paging import addresses as addresses_module
from binlog.paging.addresses import Commit
from binlog.paging.options import PagingOptions
from binlog.paging.page import Page
from tests.support.failing import paging_that_fails, raising
from tests.support.paging import (
    copy_after_crash,
    depage_all,
    numbered_messages,
    page_all,
    page_files,
    paging,
    read_all,
    read_run,
)


def _in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test checks it
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def test_messages_of_a_dead_transaction_are_skipped_and_their_pages_removed(tmp_path: Path) -> None:
    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        transaction = opened.manager.begin()
        for message in numbered_messages(30):
            assert store.page(message, transaction)
        store.page(b"outside")
        store.sync()
        path = copy_after_crash(tmp_path / "paging")
        transaction.rollback()
    with paging(path) as (opened, store):
        assert depage_all(opened) == [b"outside"]
        assert page_files(store) == []
        assert not store.is_paging


def test_a_commit_is_recorded_after_the_sync_of_all_its_pages(tmp_path: Path) -> None:
    events: list[str] = []
    with paging(tmp_path) as (opened, store), pytest.MonkeyPatch.context() as patch:
        other = opened.manager.store("other")
        sync, commit = Page.sync, opened.journal.commit

        def sync_and_tell(page: Page, commit: Commit | None) -> None:
            sync(page, commit)
            events.append(page.folder.address)

        def commit_and_tell(tx_id: int) -> None:
            events.append("commit")
            commit(tx_id)

        store.start_paging()
        other.start_paging()
        with opened.manager.begin() as transaction:
            for message in numbered_messages(5):
                store.page(message, transaction)
                other.page(message, transaction)
            patch.setattr(Page, "sync", sync_and_tell)
            patch.setattr(opened.journal, "commit", commit_and_tell)
        assert events == [store.address, other.address, "commit"]
        assert opened.manager.transactions.counts == {transaction.tx_id: 10}
    with paging(tmp_path) as (opened, store):
        assert opened.manager.transactions.counts == {transaction.tx_id: 10}


@pytest.mark.parametrize("committed", [True, False])
def test_depaging_waits_for_an_open_transaction(tmp_path: Path, *, committed: bool) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        transaction = opened.manager.begin()
        store.page(b"mine", transaction)
        store.page(b"other's")
        found: list[bytes] = []
        thread, errors = _in_thread(
            lambda: opened.manager.depage(store.address, lambda _, messages, __: found.extend(messages))
        )
        while store.page_count != 1 or store.pages[0].page_id == 1:
            pass  # until the page was taken
        assert found == []
        transaction.commit() if committed else transaction.rollback()
        thread.join()
        assert errors == []
        assert found == ([b"mine", b"other's"] if committed else [b"other's"])


def test_stopping_ends_the_wait_for_a_transaction(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        transaction = opened.manager.begin()
        store.page(b"mine", transaction)
        thread, errors = _in_thread(lambda: opened.manager.depage(store.address, lambda *_: None))
        while store.page_count != 1 or store.pages[0].page_id == 1:
            pass  # until the page was taken
        opened.manager.stop()
        thread.join()
        assert [type(error) for error in errors] == [ClosedError]


def test_a_transaction_record_is_deleted_with_its_last_message(tmp_path: Path) -> None:
    messages = numbered_messages(40)
    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        with opened.manager.begin() as transaction:
            for message in messages:
                store.page(message, transaction)
        found: list[bytes] = []
        while opened.manager.depage(store.address, lambda _, taken, __: found.extend(taken)):
            left = {transaction.tx_id: 40 - len(found)} if len(found) < 40 else {}
            assert opened.manager.transactions.counts == left
            with paging(copy_after_crash(tmp_path / "paging")) as (after, _):
                assert after.manager.transactions.counts == left
                assert depage_all(after) == messages[len(found) :]
        assert found == messages
    with paging(tmp_path / "paging") as (opened, _):
        assert opened.loaded.records == []


def test_a_depaged_page_that_was_not_removed_is_not_depaged_again(tmp_path: Path) -> None:
    messages = numbered_messages(25)
    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        page_all(store, messages)
        found: list[bytes] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Page, "delete", lambda _: None)
            opened.manager.depage(store.address, lambda _, taken, __: found.extend(taken))
        path = copy_after_crash(tmp_path / "paging")
        assert len(page_files(path)) == 3
    with paging(path) as (opened, store):
        assert len(page_files(store)) == 2
        assert found + depage_all(opened) == messages


def test_a_page_whose_depage_was_not_committed_is_depaged_again(tmp_path: Path) -> None:
    messages = numbered_messages(10)
    after: list[Path] = []

    def die(_: str, taken: list[bytes], __: int) -> None:
        assert taken == messages
        after.append(copy_after_crash(tmp_path / "paging"))
        raise RuntimeError("it does not want them")

    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        page_all(store, messages)
        with pytest.raises(RuntimeError):
            opened.manager.depage(store.address, die)
        assert depage_all(opened) == messages
    with paging(after[0]) as (opened, store):
        assert depage_all(opened) == messages


def test_pages_with_restarted_ids_are_not_taken_for_depaged_ones(tmp_path: Path) -> None:
    for _ in range(3):
        with paging(tmp_path) as (opened, store):
            store.start_paging()
            assert [page.page_id for page in store.pages] == [1]
            page_all(store, numbered_messages(25))
            assert depage_all(opened) == numbered_messages(25)
            assert opened.manager.depage(store.address, lambda *_: None) is False
    with paging(tmp_path) as (opened, _):
        assert opened.loaded.records == []


def test_page_ids_are_not_reused_while_a_depaged_page_is_recorded(tmp_path: Path) -> None:
    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        store.page(b"message")
        opened.manager.depage(store.address, lambda *_: None)
        assert store.depage() is None  # and it dies before the record is deleted
        path = copy_after_crash(tmp_path / "paging")
    with paging(path) as (opened, store):
        store.start_paging()
        store.page(b"another")
        after = copy_after_crash(path)
    with paging(after) as (opened, store):
        assert depage_all(opened) == [b"another"]


def test_a_prepared_transaction_waits_for_the_next_process(tmp_path: Path) -> None:
    for committed in (True, False):
        path = tmp_path / str(committed)
        with paging(path) as (opened, store):
            store.start_paging()
            transaction = opened.manager.begin()
            store.page(b"mine", transaction)
            transaction.prepare(b"an id")
            with pytest.raises(StateError):
                store.page(b"more", transaction)
        with paging(path) as (opened, store):
            ((found, extra),) = opened.manager.transactions.in_doubt.values()
            assert (found.tx_id, extra) == (transaction.tx_id, b"an id")
            cursor = opened.manager.cursor(store.address)
            assert cursor.read() is None
            found.commit() if committed else found.rollback()
            run = cursor.read()
            assert (run.messages if run else []) == ([b"mine"] if committed else [])
        with paging(path) as (opened, _):
            assert opened.manager.transactions.in_doubt == {}


def test_acknowledgements_of_a_transaction_count_with_its_commit(tmp_path: Path) -> None:
    messages = numbered_messages(30)
    for ending in ("commit", "rollback", "death"):
        path = tmp_path / ending
        with paging(path) as (opened, store):
            store.start_paging()
            message_ids = [store.append(message) or 0 for message in messages]
            cursor = opened.manager.cursor(store.address)
            transaction = opened.manager.begin()
            for message_id in message_ids[:20]:
                cursor.ack(message_id, transaction=transaction)
            with pytest.raises(StateError):
                cursor.ack(message_ids[0])
            assert len(page_files(store)) == 3
            if ending != "death":
                transaction.commit() if ending == "commit" else transaction.rollback()
            opened.manager.drain()  # if a page is removed during the copy, the copy is not that of a crash
            after = copy_after_crash(path)
            if ending == "commit":
                while run := cursor.read():
                    cursor.ack(run.message_id, len(run.messages))
                opened.manager.drain()
                assert len(page_files(store)) == 1
            if ending == "rollback":
                cursor.ack(message_ids[0])
        with paging(after) as (opened, store):
            cursor = opened.manager.cursor(store.address)
            found = read_all(cursor, acknowledged=True)
            assert found == (messages[20:] if ending == "commit" else messages)
            opened.manager.drain()
            assert page_files(store) == []
            assert opened.manager.transactions.counts == {}
        with paging(after) as (opened, _):
            assert opened.loaded.records == []


def test_a_leftover_complete_page_decrements_no_count_twice(tmp_path: Path) -> None:
    messages = numbered_messages(30)
    with paging(tmp_path / "paging") as (opened, store):
        store.start_paging()
        with opened.manager.begin() as transaction:
            for message in messages:
                store.page(message, transaction)
        cursor = opened.manager.cursor(store.address)
        run = read_run(cursor)
        count = len(run.messages)
        after: list[Path] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Page, "delete", lambda _: after.append(copy_after_crash(tmp_path / "paging")))
            cursor.ack(run.message_id, count)
            opened.manager.drain()
        assert opened.manager.transactions.counts == {transaction.tx_id: 30 - count}
    with paging(after[0]) as (opened, store):
        assert opened.manager.transactions.counts == {transaction.tx_id: 30 - count}
        cursor = opened.manager.cursor(store.address)
        found = read_all(cursor)
        assert found == messages[count:]


@pytest.mark.parametrize("made_later", [False, True])
def test_a_later_page_of_another_program_survives_a_complete_one(tmp_path: Path, made_later: bool) -> None:
    """This process recorded that the page is complete, and died; then JBoss Messaging started again at page 1."""
    options = PagingOptions(page_bytes=4096, layout=PageLayout.JBM)
    after: list[Path] = []
    with paging(tmp_path / "paging", options) as (opened, store):
        store.start_paging()
        with opened.manager.begin() as transaction:
            for message in numbered_messages(300):
                store.page(message, transaction)
        cursor = opened.manager.cursor(store.address)
        run = read_run(cursor)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Page, "delete", lambda _: after.append(copy_after_crash(tmp_path / "paging")))
            cursor.ack(run.message_id, len(run.messages))
            opened.manager.drain()
    theirs = b"{" + (8 + 6).to_bytes(4) + b"\xff" * 8 + b"theirs" + b"}"
    (page,) = after[0].glob("*/000000001.page")
    if made_later:
        page.write_bytes(theirs)
    with paging(after[0], options) as (opened, store):
        assert page.exists() == made_later
        found = read_all(opened.manager.cursor(store.address))
        assert (b"theirs" in found) == made_later
    if made_later:
        with paging(after[0], options):
            assert page.read_bytes() == theirs


@pytest.mark.parametrize("kind", ["ours", "theirs", "theirs before it"])
def test_a_later_page_of_another_program_survives_a_depaged_one(tmp_path: Path, kind: str) -> None:
    """A record says up to which page this address was depaged; then JBoss Messaging started again at page 1."""
    options = PagingOptions(page_bytes=4096, layout=PageLayout.JBM)
    after: list[Path] = []
    with paging(tmp_path / "paging", options) as (opened, store):
        store.start_paging()
        for message in numbered_messages(300):
            store.page(message)
        assert opened.manager.depage(store.address, lambda *_: None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Page, "delete", lambda _: after.append(copy_after_crash(tmp_path / "paging")))
            assert opened.manager.depage(store.address, lambda *_: None)
    (page,) = after[0].glob("*/000000002.page")
    if kind == "theirs before it":
        page = page.with_name("000000001.page")
    theirs = b"{" + (8 + 6).to_bytes(4) + b"\xff" * 8 + b"theirs" + b"}"
    if kind != "ours":
        page.write_bytes(theirs)
    with paging(after[0], options) as (opened, store):
        assert page.exists() == (kind != "ours")
        found = depage_all(opened)
    assert (b"theirs" in found) == (kind != "ours")
    assert numbered_messages(300)[-1] in found


def test_a_transaction_ends_once_and_an_exception_rolls_it_back(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store):
        store.start_paging()
        with contextlib.suppress(KeyError), opened.manager.begin() as transaction:
            store.page(b"never", transaction)
            raise KeyError
        with pytest.raises(StateError):
            transaction.commit()
        with pytest.raises(StateError):
            store.page(b"never", transaction)
        assert depage_all(opened) == []


def test_a_failed_sync_prevents_commits_and_pages_and_stop_reports_it(tmp_path: Path) -> None:
    with paging_that_fails(tmp_path) as (opened, store), pytest.MonkeyPatch.context() as patch:
        store.start_paging()
        transaction = opened.manager.begin()
        store.page(b"mine", transaction)

        patch.setattr(Page, "sync", raising(PoisonedError("a sync failed")))
        with pytest.raises(PoisonedError):
            transaction.commit()
        assert opened.manager.transactions.counts == {}
        with pytest.raises(PoisonedError):
            store.page(b"more")


def test_a_failed_page_sync_is_not_retried_by_another_transaction(tmp_path: Path) -> None:
    """The kernel reports a failure once, so the second transaction would be committed without its messages on disk."""
    closing = contextlib.ExitStack()
    _, store = closing.enter_context(paging(tmp_path))
    store.start_paging()
    store.page(b"mine")
    (page,) = store.pages
    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(addresses_module, "sync", raising(PoisonedError("a sync failed")))
        with pytest.raises(PoisonedError):
            page.sync()
    with pytest.raises(PoisonedError):
        page.sync()
    with pytest.raises(PoisonedError):
        closing.close()


def test_a_page_being_depaged_is_synced_before_its_transaction_commits(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, store), pytest.MonkeyPatch.context() as patch:
        store.start_paging()
        transaction = opened.manager.begin()
        store.page(b"mine", transaction)
        patch.setattr(store, "run_in_background", lambda _: None)
        patch.setattr(store, "_run_in_background", lambda _: None)
        page = store.depage()
        assert page is not None
        synced: list[Page] = []

        def note(each: Page, commit: Commit | None) -> None:
            synced.append(each)

        patch.setattr(Page, "sync", note)
        transaction.commit()
        assert page in synced
        store.put_back(page)


def test_a_message_added_during_a_sync_is_synced_by_the_next(tmp_path: Path) -> None:
    with paging(tmp_path) as (_, store), pytest.MonkeyPatch.context() as patch:
        store.start_paging()
        page = store.pages[0]
        patch.setattr(store, "_run_in_background", lambda _: None)
        sync = Page.sync
        synced: list[Page] = []

        def sync_and_fill(each: Page, commit: Commit | None) -> None:
            sync(each, commit)
            synced.append(each)
            if len(synced) == 1:
                page_all(store, numbered_messages(30))

        patch.setattr(Page, "sync", sync_and_fill)
        store.page(b"first")
        store.sync()
        assert synced == [page]
        assert not page.is_open
        store.sync()
        assert synced.count(page) == 2


def test_the_record_of_a_depaged_page_stays_until_its_removal_is_durable(tmp_path: Path) -> None:
    events: list[str] = []
    with paging(tmp_path) as (opened, store), pytest.MonkeyPatch.context() as patch:
        store.start_paging()
        store.page(b"message")
        opened.manager.depage(store.address, lambda *_: None)
        sync, delete = store.folder.sync, opened.journal.append_delete

        def delete_and_tell(record_id: int) -> None:
            events.append("record")
            delete(record_id)

        def sync_and_tell() -> None:
            events.append("folder")
            sync()

        patch.setattr(store.folder, "sync", sync_and_tell)
        patch.setattr(opened.journal, "append_delete", delete_and_tell)
        assert not opened.manager.depage(store.address, lambda *_: None)
        assert events[-2:] == ["folder", "record"]
