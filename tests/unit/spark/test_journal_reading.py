"""Planning and reading a journal, as plain calls without a Java virtual machine."""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog.errors import CorruptError, FullError, GoneError
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind
from binlog.journal.options import Sync
from binlog.spark.journal.options import JournalReadOptions
from binlog.spark.schema import Field
from tests.support.examples import examples
from tests.support.journal_programs import programs, run
from tests.support.journals import SMALL, files, flip, journal, write_file
from tests.support.plain_journal import Row, plain_rows

pytestmark = pytest.mark.spark

ALL = ("file", "file_id", "offset", "kind", "id", "transaction", "transaction_state", "user_type", "data", "state")


def fields_of(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name, name, True) for name in names)


def tasks_of(path: Path, filters: list[Any] | None = None, *, names: tuple[str, ...] = ALL, **options: Any) -> Any:
    """A reader and its tasks, as they reach another process."""
    from binlog.spark.journal.reading import FilteringReader

    reader = FilteringReader(JournalReadOptions(str(path), **options), fields_of(*names))
    assert list(reader.pushFilters(filters or [])) == (filters or [])
    return pickle.loads(pickle.dumps((reader, reader.partitions())))


def read(path: Path, filters: list[Any] | None = None, **options: Any) -> list[Row]:
    reader, tasks = tasks_of(path, filters, **options)
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Fifty records in some files; ten of them updated, five deleted; and four transactions."""
    with journal(tmp_path) as (opened, _):
        for number in range(50):
            opened.append_add(number, 1, b"%d" % number * 60, sync=Sync.LATER)
        for number in range(0, 50, 5):
            opened.append_update(number, 2, b"updated", sync=Sync.LATER)
        for number in range(1, 50, 10):
            opened.append_delete(number, sync=Sync.LATER)
        for tx_id in range(1000, 1004):
            opened.append_add_tx(tx_id, tx_id, 3, b"joined")
            opened.append_delete_tx(tx_id, tx_id - 998, b"why")
        opened.commit(1000)
        opened.rollback(1001)
        opened.prepare(1002, b"XID")
        assert len(files(tmp_path)) > 3
    return tmp_path


@settings(max_examples=examples(25), deadline=None)
@given(
    programs,
    st.sampled_from([JournalLayout.NATIVE, JournalLayout.JBM]),
    st.integers(1, 4000),
    st.integers(1, 4),
    st.sets(st.sampled_from((*ALL, "record_bytes")), min_size=1),
)
def test_rows_are_what_reading_record_by_record_gives(
    program: list[tuple[str, tuple[Any, ...]]], layout: JournalLayout, task_bytes: int, tasks_min: int, names: set[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        run(program, path, replace(SMALL, file_bytes=1024, layout=layout))
        options = {"partition_bytes": task_bytes, "partitions_min": tasks_min}
        found = read(path, names=tuple(names), **options)
        assert found == [{name: row[name] for name in names} for row in plain_rows(path)]


def test_what_a_journal_holds_can_be_asked_for(filled: Path) -> None:
    there = [row for row in read(filled) if row["state"] == "live"]
    assert sorted(row["id"] for row in there) == sorted({*range(50), 1000} - {2, *range(1, 50, 10)})
    assert {row["data"] for row in there if row["id"] in range(0, 50, 5)} == {b"updated"}
    assert {(row["transaction"], row["transaction_state"]) for row in read(filled) if row["transaction"]} == {
        (1000, "committed"), (1001, "rolled_back"), (1002, "prepared"), (1003, "open"),
    }  # fmt: skip
    [prepared] = [row for row in read(filled) if row["kind"] == "prepare"]
    assert (prepared["data"], prepared["id"], prepared["state"]) == (b"XID", None, "prepared")


def test_filters_narrow_what_is_read(filled: Path) -> None:
    from pyspark.sql.datasource import EqualNullSafe, EqualTo, GreaterThan, In, IsNull, LessThanOrEqual

    every = read(filled)

    def expect(filters: list[Any], wanted: Any) -> None:
        found = read(filled, filters)
        assert found == [row for row in every if wanted(row)]
        assert found

    expect([EqualTo(("state",), "live")], lambda row: row["state"] == "live")
    expect([EqualTo(("kind",), "delete")], lambda row: row["kind"] == "delete")
    expect(
        [EqualTo(("id",), 1001), EqualNullSafe(("kind",), "add_tx")],
        lambda row: (row["id"], row["kind"]) == (1001, "add_tx"),
    )
    expect([GreaterThan(("id",), 40), LessThanOrEqual(("id",), 45)], lambda row: row["id"] in range(41, 46))
    expect([In(("transaction",), [1002, 1003])], lambda row: row["transaction"] in (1002, 1003))
    expect([EqualTo(("file_id",), 2)], lambda row: row["file_id"] == 2)
    expect([EqualTo(("file",), "journal-1.jnl")], lambda row: row["file"] == "journal-1.jnl")
    expect([GreaterThan(("offset",), 1000)], lambda row: row["offset"] > 1000)
    expect([IsNull(("id",)), EqualTo(("transaction_state",), "open")], lambda _: True)  # left to Spark
    assert read(filled, [GreaterThan(("id",), 2**63 - 1)]) == []
    assert read(filled, [EqualTo(("state",), "failed")]) == []
    assert tasks_of(filled, [EqualTo(("kind",), "nothing")])[1] == []


def test_files_with_nothing_that_is_wanted_are_not_read(filled: Path) -> None:
    from pyspark.sql.datasource import EqualTo

    everything = [part for task in tasks_of(filled, partition_bytes=1)[1] for part in task.ranges]
    assert len(everything) == len({row["file"] for row in read(filled)}) > 3
    [part] = [part for task in tasks_of(filled, [EqualTo(("kind",), "prepare")])[1] for part in task.ranges]
    assert part.file.name == next(row["file"] for row in read(filled) if row["kind"] == "prepare")


def error_of_tasks(reader: Any, tasks: Any) -> str:
    with pytest.raises(GoneError) as caught:
        [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    return str(caught.value)


@pytest.mark.parametrize("layout", [JournalLayout.NATIVE, JournalLayout.JBM])
def test_an_owner_that_goes_on_is_read_as_it_was_or_not_at_all(tmp_path: Path, layout: JournalLayout) -> None:
    with journal(tmp_path, replace(SMALL, layout=layout)) as (opened, _):
        for number in range(30):
            opened.append_add(number, 1, bytes(200))
        planned = tasks_of(tmp_path)
        before = [row for task in planned[1] for batch in planned[0].read(task) for row in batch.to_pylist()]
        assert [row["state"] for row in before] == ["live"] * 30
        opened.append_delete(29)
        opened.append_add(30, 1, bytes(200))
        again = [row for task in planned[1] for batch in planned[0].read(task) for row in batch.to_pylist()]
        assert again == before
        assert [row["state"] for row in read(tmp_path)] == ["live"] * 29 + ["deleted", "done", "live"]
        is_native = layout is JournalLayout.NATIVE  # others are never compacted, only used again
        kept = {0, 8, 16, 24} if is_native else {16, 24}
        for number in set(range(29)) - kept:
            opened.append_delete(number)
        compacting = tasks_of(tmp_path)
        assert (opened.compact() if is_native else opened.reclaim()) > 0
        assert "since the read was planned" in error_of_tasks(*compacting)
        assert "was reused or compacted" in error_of_tasks(*planned)
        assert {row["id"] for row in read(tmp_path) if row["state"] == "live"} == kept | {30}


def test_a_file_that_is_gone_or_damaged_since_the_planning_is_an_error(filled: Path) -> None:
    for file in files(filled)[:2]:
        planned = tasks_of(filled)
        kept = file.read_bytes()
        flip(file, 500)
        assert "since the read was planned" in error_of_tasks(*planned)
        file.unlink()
        assert "read again, or less of it" in error_of_tasks(*planned)
        file.write_bytes(kept)


def test_damage_is_an_error_or_a_row(filled: Path) -> None:
    every = read(filled)
    file = files(filled)[1]
    damaged = next(row for row in every if row["file"] == file.name)
    flip(file, damaged["offset"] + 20)
    with pytest.raises(
        CorruptError, match=r"no record: these bytes are damaged.*; mode=PERMISSIVE has a row .* \[gap\]"
    ):
        read(filled)
    names = (*ALL, "damage")
    found = read(filled, names=names, permissive=True)
    [row] = [row for row in found if row["damage"]]
    size = damaged["offset"] + records_in_size(every, damaged)
    assert row["damage"]["end"] == size
    assert "[gap]" in row["damage"]["reason"]
    assert {name: row[name] for name in ALL} == {
        **dict.fromkeys(ALL), "file": file.name, "file_id": damaged["file_id"], "offset": damaged["offset"]
    }  # fmt: skip
    assert [{name: row[name] for name in ALL} for row in found if not row["damage"]] == [
        row for row in every if row != damaged
    ]


def records_in_size(every: list[Row], row: Row) -> int:
    """How many bytes lie between the start of a record and that of the next one in its file."""
    return (
        min(other["offset"] for other in every if other["file"] == row["file"] and other["offset"] > row["offset"])
        - row["offset"]
    )


def test_a_transaction_of_which_a_part_is_damaged_is_failed_and_told(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add_tx(7, 1, 1, b"one")
        opened.append_add_tx(7, 2, 1, b"two")
        opened.commit(7)
    [file] = files(tmp_path)[:1]
    flip(file, 88 + 27)
    found = read(tmp_path, names=(*ALL, "damage"), permissive=True)
    assert [(row["kind"], row["state"], row["transaction_state"]) for row in found if not row["damage"]] == [
        ("add_tx", "failed", "failed"), ("commit", "failed", "failed"),
    ]  # fmt: skip
    reasons = [row["damage"]["reason"] for row in found if row["damage"]]
    assert any("records of the transaction 7 are missing" in reason for reason in reasons)


def test_a_header_that_is_damaged_is_told_and_the_other_files_are_read(filled: Path) -> None:
    every = read(filled)
    file = files(filled)[-1]
    flip(file, 20)
    with pytest.raises(CorruptError, match="header"):
        read(filled)
    found = read(filled, names=("file", "file_id", "id", "damage"), permissive=True)
    [damaged] = [row for row in found if row["damage"] and row["file"] == file.name]
    assert damaged["file_id"] is None
    assert {row["file"] for row in found if not row["damage"]} == {row["file"] for row in every} - {file.name}


def test_the_oldest_layout_is_read_where_it_is_named(tmp_path: Path) -> None:
    records = [
        JournalRecord(Kind.ADD, 0, 1, 9, b"body"),
        JournalRecord(Kind.DELETE_TX, 5, 1),
        JournalRecord(Kind.COMMIT, 5, counts=((1, 1),)),
    ]
    write_file(tmp_path, FileHeader(JournalLayout.JBM_2008_07, 1), records)
    found = read(tmp_path, layout=JournalLayout.JBM_2008_07)
    assert [(row["kind"], row["id"], row["state"]) for row in found] == [
        ("add", 1, "deleted"), ("delete_tx", 1, "done"), ("commit", None, "done"),
    ]  # fmt: skip
    with pytest.raises(CorruptError, match="it does not begin like a native journal file"):
        read(tmp_path, layout=JournalLayout.NATIVE)


def test_other_names_of_files_and_a_record_that_is_too_large(tmp_path: Path) -> None:
    with journal(tmp_path, replace(SMALL, prefix="jbm", extension="msg")) as (opened, _):
        opened.append_add(1, 1, bytes(500))
    assert [row["file"] for row in read(tmp_path, prefix="jbm", extension="msg")] == ["jbm-1.msg"]
    with pytest.raises(FullError, match="a record of 521 bytes; the limit is 500"):
        read(tmp_path, prefix="jbm", extension="msg", record_bytes_max=500)
