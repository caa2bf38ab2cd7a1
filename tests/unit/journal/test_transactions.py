"""Transactions are all or nothing, whatever is damaged."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import NotFoundError, StateError
from binlog.format.journal.block import HEAD_BYTES
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JOURNAL_COUNT, JournalRecord, Kind
from binlog.journal.journal import Journal
from binlog.journal.record import Deleted, Record, TransactionContent
from tests.support.journals import (
    LAYOUTS,
    SMALL,
    files,
    flip,
    header_for,
    header_of,
    ids,
    journal,
    records_in,
    reload,
    write_file,
)

LARGE = bytes(900)  # two to a file


def test_a_transaction_is_visible_after_its_commit(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"one")
        opened.append_add(2, 1, b"two")
        opened.append_add_tx(10, 3, 1, b"three")
        opened.append_update_tx(10, 1, 2, b"more")
        opened.append_delete_tx(10, 2, b"why")
        with pytest.raises(NotFoundError):
            opened.append_delete(3)
        opened.append_update(2, 1, b"still there")
        opened.commit(10)
        with pytest.raises(NotFoundError):
            opened.append_delete(2)
        opened.append_update(3, 2, b"now")
    loaded = reload(tmp_path)
    assert loaded.records == [
        Record(1, 1, b"one"),
        Record(3, 1, b"three"),
        Record(1, 2, b"more", is_update=True),
        Record(3, 2, b"now", is_update=True),
    ]
    assert loaded[1:] == ([], [], 10, [])


def test_a_rolled_back_transaction_has_no_effect(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        for number in range(5):
            opened.append_add(number, 1, b"")
        for number in range(5):
            opened.append_delete_tx(10, number)
        opened.append_add_tx(10, 7, 1, b"")
        opened.rollback(10)
        for end in (opened.commit, opened.rollback):
            with pytest.raises(NotFoundError):
                end(10)
    loaded = reload(tmp_path)
    assert ids(loaded) == list(range(5))
    assert loaded.id_max == 10


@pytest.mark.parametrize("end", [Journal.commit, Journal.rollback, Journal.prepare])
def test_an_id_that_an_open_transaction_adds_is_taken(tmp_path: Path, end: Callable[[Journal, int], None]) -> None:
    """Otherwise there would be two records with the id, and a delete would remove both."""
    with journal(tmp_path) as (opened, _):
        opened.append_add_tx(10, 5, 1, b"ten")
        for refused in (
            lambda: opened.append_add(5, 1, b""),
            lambda: opened.append_add_tx(11, 5, 1, b""),
            lambda: opened.append_add_tx(10, 5, 1, b""),
        ):
            with pytest.raises(StateError, match="adds it"):
                refused()
        assert not opened.try_append_add(5, 1, b"")
        end(opened, 10)
        assert opened.try_append_add(5, 1, b"five") is (end is Journal.rollback)
    with journal(tmp_path) as (opened, loaded):
        bodies = {Journal.commit: [b"ten"], Journal.rollback: [b"five"], Journal.prepare: []}[end]
        assert [record.body for record in loaded.records] == bodies
        assert not opened.try_append_add(5, 1, b"again")
        if end is Journal.prepare:
            opened.rollback(10)
            opened.append_add(5, 1, b"now")


def test_an_id_added_and_deleted_in_a_transaction_is_not_taken(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add_tx(10, 5, 1, b"first")
        opened.append_delete_tx(11, 5)  # a delete in another transaction does not matter
        with pytest.raises(StateError):
            opened.append_add(5, 1, b"")
        opened.append_delete_tx(10, 5)
        opened.append_add_tx(10, 5, 1, b"second")
        opened.commit(10)
        opened.append_add_tx(12, 6, 1, b"left")
    with journal(tmp_path) as (opened, loaded):
        assert [record.body for record in loaded.records] == [b"second"]
        opened.append_add(6, 1, b"new")
    assert ids(reload(tmp_path)) == [5, 6]


@pytest.mark.parametrize("order", [*itertools.permutations((10, 20, 30))])
def test_interleaved_transactions_take_effect_in_commit_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"1")
        for number in (2, 3, 4):
            for tx_id in (10, 20, 30):
                opened.append_add_tx(tx_id, number * 100 + tx_id, 1, b"%d" % tx_id)
                opened.append_update_tx(tx_id, 1, 1, b"%d" % tx_id)
        opened.append_delete_tx(20, 1)
        for tx_id in order:
            opened.commit(tx_id)
    expected = [Record(1, 1, b"1")]
    for tx_id in order:
        for number in (2, 3, 4):
            expected.append(Record(number * 100 + tx_id, 1, b"%d" % tx_id))
            if 20 not in order[: order.index(tx_id)]:  # otherwise the record to be updated does not exist
                expected.append(Record(1, 1, b"%d" % tx_id, is_update=True))
        if tx_id == 20:
            expected = [record for record in expected if record.record_id != 1]
    assert reload(tmp_path).records == expected


def test_an_open_transaction_is_reported_once_and_its_id_is_free(tmp_path: Path) -> None:
    opened = Journal(tmp_path, SMALL)
    opened.start()
    opened.load()
    opened.append_add(1, 1, b"")
    opened.append_add_tx(10, 2, 5, b"lost")
    opened.append_delete_tx(10, 1, b"why")
    opened.close()
    with journal(tmp_path) as (opened, loaded):
        assert loaded.failed == [TransactionContent(10, b"", [Record(2, 5, b"lost")], [Deleted(1, b"why")])]
        assert ids(loaded) == [1]
        with pytest.raises(NotFoundError):
            opened.commit(10)
        opened.append_add_tx(10, 3, 1, b"new")
        opened.commit(10)
    for _ in range(2):
        loaded = reload(tmp_path)
        assert ids(loaded) == [1, 3]
        assert loaded.failed == []


def _spread(opened: Journal) -> None:
    """Run transaction 10 over three files, with another one beside it in the second file."""
    for number in (1, 2, 3):
        opened.append_add_tx(10, number, 1, LARGE)
    opened.append_add_tx(11, 50, 1, b"beside")
    opened.commit(11)
    for number in (4, 5):
        opened.append_add_tx(10, number, 1, LARGE)
    opened.commit(10)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_commit_counts_the_records_in_each_file(tmp_path: Path, layout: JournalLayout) -> None:
    with journal(tmp_path, replace(SMALL, layout=layout)) as (opened, _):
        _spread(opened)
    (commit,) = [
        each for file in files(tmp_path) for each in records_in(file) if each[0] == Kind.COMMIT and each[3] == 10
    ]
    counts = [JOURNAL_COUNT.unpack(commit[7], at) for at in range(0, len(commit[7]), 8)]
    assert [(each["file_id"], each["record_count"]) for each in counts] == [(1, 2), (2, 2), (3, 1)]
    assert ids(reload(tmp_path)) == [50, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("damaged", [1, 2, 3, 4, 5])
def test_one_damaged_record_voids_the_transaction(tmp_path: Path, layout: JournalLayout, damaged: int) -> None:
    with journal(tmp_path, replace(SMALL, layout=layout)) as (opened, _):
        _spread(opened)
    for file in files(tmp_path):
        for each in records_in(file):
            if each[4] == damaged:
                flip(file, each[2] - 1)  # its check
    loaded = reload(tmp_path)
    assert ids(loaded) == [50]
    assert [each.tx_id for each in loaded.failed] == [10]
    assert "transaction" in {problem.rule for problem in loaded.problems}
    assert len(loaded.problems) == 2
    again = reload(tmp_path)
    assert ids(again) == [50]
    assert again.failed == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_transaction_whose_first_file_was_reused_is_complete(tmp_path: Path, layout: JournalLayout) -> None:
    options = replace(SMALL, layout=layout)
    with journal(tmp_path, options) as (opened, _):
        _spread(opened)
        for number in (1, 2):
            opened.append_delete(number)
        opened.reclaim()
    assert 1 not in {header_of(file).file_id for file in files(tmp_path)}
    loaded = reload(tmp_path, options)
    assert ids(loaded) == [50, 3, 4, 5]
    assert (loaded.failed, loaded.problems) == ([], [])


def test_a_damaged_transaction_does_not_affect_another(tmp_path: Path) -> None:
    options = replace(SMALL, file_bytes=10240)
    with journal(tmp_path, options) as (opened, _):
        for number in range(20):
            opened.append_add_tx(1, number, 1, b"one")
            opened.append_add_tx(2, 100 + number, 1, b"two")
        opened.commit(1)
        opened.commit(2)
    file = files(tmp_path)[0]
    flip(file, next(each[1] for each in records_in(file) if each[4] == 7) + HEAD_BYTES)
    loaded = reload(tmp_path, options)
    assert ids(loaded) == list(range(100, 120))
    assert [each.tx_id for each in loaded.failed] == [1]


@pytest.mark.parametrize("empty", [True, False])
def test_a_prepared_transaction_waits_for_its_end(tmp_path: Path, empty: bool) -> None:
    records = [] if empty else [Record(2, 5, b"new"), Record(1, 6, b"more", is_update=True)]
    deletes = [] if empty else [Deleted(1, b"why"), Deleted(9)]
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"")
        if not empty:
            opened.append_add_tx(10, 2, 5, b"new")
            opened.append_update_tx(10, 1, 6, b"more")
            opened.append_delete_tx(10, 1, b"why")
            opened.append_delete_tx(10, 9)
        opened.prepare(10, b"XID")
        for again in (lambda: opened.prepare(10), lambda: opened.append_add_tx(10, 3, 1, b"")):
            with pytest.raises(StateError, match="is prepared"):
                again()
    for _ in range(2):
        loaded = reload(tmp_path)
        assert loaded.prepared == [TransactionContent(10, b"XID", records, deletes)]
        assert (loaded.records, loaded.failed) == ([Record(1, 1, b"")], [])


@pytest.mark.parametrize("commits", [True, False])
def test_a_prepared_transaction_is_ended_by_the_next_process(tmp_path: Path, commits: bool) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"")
        opened.append_add_tx(10, 2, 1, b"")
        opened.append_delete_tx(10, 1)
        opened.prepare(10, b"XID")
    with journal(tmp_path) as (opened, loaded):
        assert [each.tx_id for each in loaded.prepared] == [10]
        (opened.commit if commits else opened.rollback)(10)
    for _ in range(2):
        loaded = reload(tmp_path)
        assert ids(loaded) == ([2] if commits else [1])
        assert loaded.prepared == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_prepared_transaction_with_a_damaged_record_has_failed(tmp_path: Path, layout: JournalLayout) -> None:
    with journal(tmp_path, replace(SMALL, layout=layout)) as (opened, _):
        opened.append_add_tx(10, 2, 1, b"two")
        opened.append_add_tx(10, 3, 1, b"three")
        opened.prepare(10, b"XID")
    file = files(tmp_path)[0]
    flip(file, records_in(file)[0][2] - 1)
    loaded = reload(tmp_path)
    assert (loaded.prepared, [each.tx_id for each in loaded.failed]) == ([], [10])
    assert reload(tmp_path)[1:3] == ([], [])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_commit_or_rollback_of_an_unknown_transaction_has_no_effect(tmp_path: Path, layout: JournalLayout) -> None:
    header = header_for(layout, 9)
    kept = [
        JournalRecord(Kind.COMMIT, 5, counts=((3, 2), (4, 1))),
        JournalRecord(Kind.ROLLBACK, 6),
        JournalRecord(Kind.DELETE, 0, 77),
        JournalRecord(Kind.ADD, 0, 1, 1, b"x"),
    ]
    write_file(tmp_path, header, kept)
    assert reload(tmp_path) == ([Record(1, 1, b"x")], [], [], 77, [])


def test_open_records_of_another_program_do_not_join_a_later_transaction(tmp_path: Path) -> None:
    """JBoss Messaging leaves such records, and may use the transaction id again after a restart."""
    one, two = (FileHeader(JournalLayout.JBM, number) for number in (1, 2))
    write_file(tmp_path, one, [JournalRecord(Kind.ADD_TX, 5, 1, 1, b"orphan")])
    write_file(
        tmp_path, two, [JournalRecord(Kind.ADD_TX, 5, 2, 1, b"new"), JournalRecord(Kind.COMMIT, 5, counts=((2, 1),))]
    )
    with journal(tmp_path) as (opened, loaded):
        assert ids(loaded) == [2]
        opened.append_add(1, 1, b"")  # its transaction will never end
    assert ids(reload(tmp_path)) == [2, 1]


@pytest.mark.parametrize(("work", "left"), [(Journal.reclaim, []), (Journal.compact, [100])])
def test_the_rollback_of_a_damaged_transaction_outlives_its_commit(
    tmp_path: Path, work: Callable[[Journal], int], left: list[int]
) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"keeps the file")
        opened.append_add_tx(7, 2, 1, b"damaged")
        opened.commit(7)
    (first,) = [file for file in files(tmp_path) if records_in(file)]
    flip(first, records_in(first)[1][1] + 30)
    with journal(tmp_path) as (opened, loaded):
        assert [each.tx_id for each in loaded.failed] == [7]
        for number in range(100, 200):
            opened.append_add(number, 1, bytes(100))
        for number in range(100 + len(left), 200):
            opened.append_delete(number)
        work(opened)
    loaded = reload(tmp_path)
    assert ids(loaded) == [1, *left]
    assert not loaded.failed
