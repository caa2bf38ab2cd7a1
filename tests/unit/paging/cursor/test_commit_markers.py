"""Commit markers: a page records which of its many small transactions were committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlog.compose import OpenedPaging
from binlog.errors import CorruptError, FullError, PoisonedError
from binlog.format.paging.page_record import PAGE_END
from binlog.format.paging.store_records import CommitMarker, StoreRecord, parse_commit_marker
from binlog.paging.manager import PagingManager
from binlog.paging.options import PagingOptions
from binlog.paging.store import PagingStore
from tests.support.failing import paging_that_fails
from tests.support.paging import ADDRESS, MemoryStore, copy_after_crash, page_files, paging, read_all

_OPTIONS = PagingOptions(page_bytes=1024 + PAGE_END.size, commit_markers_above=10)
_COUNT = 200


def _body(number: int) -> bytes:
    return b"%d " % number + bytes(300)  # three in a page


def _put_in_transactions(
    opened: OpenedPaging | PagingManager, store: PagingStore, numbers: range, rolled_back: int = 0
) -> list[bytes]:
    """Put each message in its own transaction, roll some back, and return the committed ones."""
    manager = opened.manager if isinstance(opened, OpenedPaging) else opened
    committed = []
    for number in numbers:
        transaction = manager.begin()
        store.page(_body(number), transaction)
        if rolled_back and number % rolled_back == 0:
            transaction.rollback()
        else:
            transaction.commit()
            committed.append(_body(number))
    manager.drain()
    return committed


@pytest.mark.slow
def test_commit_markers_replace_records_of_many_transactions(tmp_path: Path) -> None:
    with paging(tmp_path / "paging", _OPTIONS) as (opened, store):
        store.start_paging()
        opened.manager.cursor(ADDRESS)
        expected = _put_in_transactions(opened, store, range(_COUNT), rolled_back=7)
        assert len(opened.manager.transactions.counts) <= 10 + 3
        after = copy_after_crash(tmp_path / "paging")
        assert read_all(opened.manager.cursor(ADDRESS)) == expected
    for path in (tmp_path / "paging", after):
        for acknowledged in (False, True):
            with paging(path, _OPTIONS) as (opened, store):
                assert len(opened.loaded.records) < 100
                assert len(opened.manager.transactions.counts) <= 10 + 3
                assert read_all(opened.manager.cursor(ADDRESS), acknowledged=acknowledged) == expected
                opened.manager.drain()
                if acknowledged:
                    assert page_files(store) == []
        with paging(path, _OPTIONS) as (opened, _):
            assert opened.loaded.records == []


@pytest.mark.slow
@pytest.mark.parametrize("committed", [False, True])
def test_a_page_gets_a_commit_marker_after_all_its_transactions_ended(tmp_path: Path, *, committed: bool) -> None:
    """This includes a transaction with a message in the page that has not counted it yet."""
    with paging(tmp_path / "paging", _OPTIONS) as (opened, store):
        store.start_paging()
        opened.manager.cursor(ADDRESS)
        transaction = opened.manager.begin()
        append = store._append
        others: list[bytes] = []

        def append_slowly(message: bytes, tx_id: int) -> int | None:
            message_id = append(message, tx_id)
            store._append = append
            others.extend(_put_in_transactions(opened, store, range(1, 100)))
            return message_id

        store._append = append_slowly
        store.page(_body(0), transaction)
        assert store.page_count > 30
        died = copy_after_crash(tmp_path / "paging")
        transaction.commit() if committed else transaction.rollback()
        others += _put_in_transactions(opened, store, range(100, 150))
        expected = [_body(0)] * committed + others
        assert len(opened.manager.transactions.counts) <= 10 + 3
        after = copy_after_crash(tmp_path / "paging")
        assert read_all(opened.manager.cursor(ADDRESS), acknowledged=True) == expected
    with paging(after, _OPTIONS) as (opened, _):
        assert read_all(opened.manager.cursor(ADDRESS), acknowledged=True) == expected
    with paging(died, _OPTIONS) as (opened, _):
        assert read_all(opened.manager.cursor(ADDRESS)) == others[:99]


def test_an_uncounted_message_of_an_interrupted_transaction_is_discarded(tmp_path: Path) -> None:
    with paging_that_fails(tmp_path, _OPTIONS) as (opened, store):
        store.start_paging()
        opened.manager.cursor(ADDRESS)
        append = store._append

        def interrupted(message: bytes, tx_id: int) -> int | None:
            append(message, tx_id)
            store._append = append
            raise KeyboardInterrupt

        store._append = interrupted
        transaction = opened.manager.begin()
        with pytest.raises(KeyboardInterrupt):
            store.page(b"interrupted", transaction)
        with pytest.raises(PoisonedError):
            transaction.commit()
    with paging(tmp_path, _OPTIONS) as (opened, store):
        opened.manager.cursor(ADDRESS)
        expected = _put_in_transactions(opened, store, range(100))
        assert len(opened.manager.transactions.counts) <= 10 + 3
        assert read_all(opened.manager.cursor(ADDRESS)) == expected


@pytest.mark.slow
def test_a_page_with_a_commit_marker_is_depaged_with_committed_messages(tmp_path: Path) -> None:
    with paging(tmp_path, _OPTIONS) as (opened, store):
        store.start_paging()
        opened.manager.cursor(ADDRESS)
        expected = _put_in_transactions(opened, store, range(_COUNT), rolled_back=5)
    found: list[bytes] = []
    with paging(tmp_path, _OPTIONS) as (opened, _):
        while opened.manager.depage(ADDRESS, lambda _, messages, __: found.extend(messages)):
            pass
        assert found == expected
        assert opened.manager.transactions.counts == {}
    with paging(tmp_path, _OPTIONS):
        pass
    with paging(tmp_path, _OPTIONS) as (opened, _):
        assert opened.loaded.records == []


class _FullStore(MemoryStore):
    is_full = False

    def commit(self, tx_id: int) -> None:
        if self.is_full and any(
            not isinstance(change, int) and change.user_type == StoreRecord.COMMIT_MARKER
            for change in self._open[tx_id]
        ):
            raise FullError("no space left")
        super().commit(tx_id)


@pytest.mark.slow
def test_a_commit_marker_without_room_is_written_later(tmp_path: Path) -> None:
    records = _FullStore()
    with PagingManager(tmp_path, _OPTIONS, store=records) as manager:
        store = manager.store(ADDRESS)
        store.start_paging()
        cursor = manager.cursor(ADDRESS)
        records.is_full = True
        expected = _put_in_transactions(manager, store, range(100), rolled_back=7)
        assert len(manager.transactions.counts) == len(expected)
        run = cursor.read()
        records.is_full = False
        expected += _put_in_transactions(manager, store, range(100, 110))
        assert len(manager.transactions.counts) <= 10 + 3
        found: list[bytes] = []
        while run is not None:
            found += run.messages
            run = cursor.read()
        assert found == expected


@pytest.mark.slow
def test_page_ids_are_not_reused_while_a_commit_marker_exists(tmp_path: Path) -> None:
    with paging(tmp_path, _OPTIONS) as (opened, store):
        store.start_paging()
        opened.manager.cursor(ADDRESS)
        _put_in_transactions(opened, store, range(60))
        last = store.pages[-1].page_id
    for file in page_files(tmp_path):
        file.unlink()
    with paging(tmp_path, _OPTIONS) as (opened, store):
        assert [record for record in opened.loaded.records if record.user_type == StoreRecord.COMMIT_MARKER]
        store.start_paging()
        assert store.pages[0].page_id > last // 2
    with paging(tmp_path, _OPTIONS) as (opened, _):
        assert [record for record in opened.loaded.records if record.user_type == StoreRecord.COMMIT_MARKER] == []


def test_commit_markers_round_trip_or_are_refused() -> None:
    for ids in (frozenset[int](), frozenset({1, 2**62})):
        settled = CommitMarker(7, "an address", ids)
        assert parse_commit_marker(settled.pack(), 1) == settled
    for body in (
        b"",
        CommitMarker(7, "", frozenset({5})).pack()[:-1],
        CommitMarker(7, "a", frozenset()).pack() + b"\xff",
    ):
        with pytest.raises(CorruptError):
            parse_commit_marker(body, 1)
