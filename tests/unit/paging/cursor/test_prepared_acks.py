"""Acknowledgements of a transaction that an earlier process prepared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binlog.compose import OpenedPaging
from binlog.paging.inspection import check_paging
from binlog.paging.page_transaction import PageTransaction
from tests.support.paging import ADDRESS, numbered_messages, page_files, paging, read_run


def _prepared_acks(path: Path, first: int, count: int) -> None:
    """Create a page of ten messages, of which a prepared transaction acknowledged some."""
    with paging(path) as (opened, store):
        store.start_paging()
        message_ids = [store.append(message) or 0 for message in numbered_messages(10)]
        transaction = opened.manager.begin()
        opened.manager.cursor(ADDRESS).ack(message_ids[first], count, transaction)
        transaction.prepare()


def _in_doubt(opened: OpenedPaging) -> PageTransaction:
    ((transaction, _),) = opened.manager.transactions.in_doubt.values()
    return transaction


def test_committed_acknowledgements_of_lost_messages_are_ignored(tmp_path: Path) -> None:
    _prepared_acks(tmp_path, 5, 5)
    (file,) = page_files(tmp_path)
    os.truncate(file, file.read_bytes().index(numbered_messages(10)[5]))
    assert check_paging(tmp_path) == []
    with paging(tmp_path) as (opened, store):
        cursor = opened.manager.cursor(ADDRESS)
        run = read_run(cursor)
        assert run.messages == numbered_messages(10)[:5]
        assert cursor.read() is None
        cursor.ack(run.message_id, 4)
        _in_doubt(opened).commit()
        opened.manager.drain()
        assert page_files(store) == [file]
    with paging(tmp_path) as (opened, _):
        assert read_run(opened.manager.cursor(ADDRESS)).messages == numbered_messages(10)[4:5]


@pytest.mark.parametrize("passed", [False, True])
def test_messages_of_a_rolled_back_acknowledgement_are_delivered_once(tmp_path: Path, *, passed: bool) -> None:
    _prepared_acks(tmp_path, 5, 2)
    with paging(tmp_path) as (opened, _):
        cursor = opened.manager.cursor(ADDRESS)
        found: list[bytes] = []
        if passed:
            while run := cursor.read():
                found += run.messages
        else:
            cursor.unacknowledged_count()  # loads the acknowledgements without delivering anything
        _in_doubt(opened).rollback()
        while run := cursor.read():
            found += run.messages
        assert sorted(found) == sorted(numbered_messages(10))
        assert passed or found == numbered_messages(10)
