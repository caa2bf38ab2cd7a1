"""If a commit fails, its transaction is rolled back, unless the commit may be durable."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlog.errors import AccessError, FullError, PoisonedError
from binlog.format.paging.names import PAGE_EXTENSION
from binlog.paging.page_transaction import Outcome
from binlog.paging.store import PagingStore
from tests.support.failing import paging_that_fails, raising, syncs_that_fail
from tests.support.paging import copy_after_crash, depage_all, paging

_OF_A_USER = 200


def _state_after_crash(path: Path) -> tuple[list[bytes], list[int]]:
    """Return what the next process finds: messages and transactions that have not ended."""
    with paging(copy_after_crash(path)) as (opened, _):
        return depage_all(opened), [each.tx_id for each in opened.loaded.failed]


def _page_two(store: PagingStore) -> None:
    store.start_paging()
    store.page(b"message")


@pytest.mark.parametrize("error", [FullError("no space"), AccessError("no", errno=5, path="")], ids=lambda e: e.args)
def test_a_block_whose_commit_did_nothing_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with paging(tmp_path / "paging") as (opened, store):
        _page_two(store)
        with monkeypatch.context() as patched:
            patched.setattr(opened.journal, "commit", raising(error))
            with pytest.raises(type(error)), opened.manager.begin() as transaction:
                store.page(b"never", transaction)
        assert transaction.state is Outcome.UNKNOWN
        assert opened.manager.transactions.open_ids == frozenset()
        assert _state_after_crash(tmp_path / "paging") == ([b"message"], [])
        assert depage_all(opened) == [b"message"]


def test_a_commit_that_did_nothing_can_be_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with paging(tmp_path) as (opened, store):
        _page_two(store)
        transaction = opened.manager.begin()
        store.page(b"mine", transaction)
        with monkeypatch.context() as patched:
            patched.setattr(opened.journal, "commit", raising(FullError("no space")))
            with pytest.raises(FullError):
                transaction.commit()
        transaction.commit()
        assert depage_all(opened) == [b"message", b"mine"]


def test_a_failed_page_sync_prevents_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with paging_that_fails(tmp_path / "paging") as (opened, store):
        _page_two(store)
        transaction = opened.manager.begin()
        opened.journal.append_add_tx(transaction.store_tx_id, opened.journal.new_id(), _OF_A_USER, b"")
        store.page(b"never", transaction)
        with syncs_that_fail(monkeypatch, PAGE_EXTENSION), pytest.raises(PoisonedError), transaction:
            pass
        for call in (transaction.commit, transaction.rollback):
            with pytest.raises(PoisonedError):
                call()
        assert _state_after_crash(tmp_path / "paging")[0] == [b"message"]


def test_a_commit_of_unknown_outcome_is_reported_and_not_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with paging_that_fails(tmp_path / "paging") as (opened, store):
        _page_two(store)
        transaction = opened.manager.begin()
        store.page(b"mine", transaction)
        store.sync()
        opened.journal._appender._group.by_caller = True  # so that it commits by the call that fails here
        with syncs_that_fail(monkeypatch, ".jnl"), pytest.raises(PoisonedError, match="may be committed"), transaction:
            pass
        for call in (transaction.commit, transaction.rollback, lambda: store.page(b"more", transaction)):
            with pytest.raises(PoisonedError, match="may be committed"):
                call()
        with pytest.raises(PoisonedError):  # depaging does not wait for it
            depage_all(opened)
        assert transaction.state is Outcome.OPEN
        assert _state_after_crash(tmp_path / "paging") == ([b"message", b"mine"], [])


def test_an_exception_of_a_commit_leaves_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with paging_that_fails(tmp_path) as (opened, store):
        _page_two(store)
        transaction = opened.manager.begin()
        store.page(b"mine", transaction)
        first: list[PoisonedError] = []

        def commit() -> None:
            try:
                transaction.commit()
            except PoisonedError as error:
                first.append(error)
                raise

        opened.journal._appender._group.by_caller = True  # so that it commits by the call that fails here
        with syncs_that_fail(monkeypatch, ".jnl"), pytest.raises(PoisonedError) as raised, transaction:
            commit()
        assert raised.value is first[0]


@pytest.mark.parametrize("committed", [True, False])
def test_records_of_the_user_end_with_an_empty_transaction(tmp_path: Path, *, committed: bool) -> None:
    with paging(tmp_path / "paging") as (opened, _):
        transaction = opened.manager.begin()
        opened.journal.append_add_tx(transaction.store_tx_id, opened.journal.new_id(), _OF_A_USER, b"mine")
        if committed:
            with transaction:
                pass
        else:
            transaction.rollback()
        after = copy_after_crash(tmp_path / "paging")
    with paging(after) as (opened, _):
        assert [record.body for record in opened.loaded.records] == [b"mine"] * committed
        assert opened.loaded.failed == []


def test_an_empty_transaction_can_be_committed_and_rolled_back(tmp_path: Path) -> None:
    with paging(tmp_path) as (opened, _):
        with opened.manager.begin() as transaction:
            pass
        assert transaction.state is Outcome.COMMITTED
        opened.manager.begin().rollback()
