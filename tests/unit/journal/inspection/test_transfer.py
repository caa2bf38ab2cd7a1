"""Export of a journal, and import of the lines."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog.errors import CorruptError, FullError, StateError
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.inspection.record_reader import StoredRecord, read_records
from binlog.journal.inspection.transfer import ExportReader, Imported, export_lines, import_journal
from binlog.journal.loading.record_states import RecordState
from binlog.journal.options import JournalOptions
from binlog.journal.record import Loaded, Record
from tests.support.examples import examples
from tests.support.journal_programs import programs, run
from tests.support.journals import LAYOUTS, SMALL, flip, ids, journal, reload, write_file
from tests.unit.journal.inspection.test_check import fill


def exported(path: Path) -> list[bytes]:
    return [line.encode() for line in export_lines(read_records(path))]


def imported(lines: list[bytes], path: Path, options: JournalOptions = SMALL) -> Imported:
    return import_journal(path, ExportReader(lines, "lines"), options)


def what_counts(loaded: Loaded) -> tuple[object, ...]:
    return loaded.records, sorted(loaded.prepared), loaded.id_max


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(programs, st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS))
def test_an_import_of_an_export_loads_the_same_records(
    program: list[tuple[str, tuple[object, ...]]], layout: JournalLayout, new_layout: JournalLayout
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder) / "old", Path(folder) / "new"
        run(program, old, replace(SMALL, file_bytes=1024, layout=layout))
        lines = exported(old)
        assert list(ExportReader(lines, "lines")) == list(read_records(old))
        done = imported(lines, new, replace(SMALL, layout=new_layout))
        assert done.skipped_count == 0
        assert check_journal(new) == []
        again = exported(new)
        before, after = reload(old, replace(SMALL, file_bytes=1024, layout=layout)), reload(new)
        assert what_counts(after) == what_counts(before)
        assert not after.failed
        assert done == Imported(record_count=len(after.records), prepared_count=len(after.prepared), skipped_count=0)
        assert grouped(again) == grouped(lines)


def grouped(lines: list[bytes]) -> list[tuple[int, object, object]]:
    """Return the live records, each with its transaction."""
    return [
        (record.kind, record.tx_id, record.record_id)
        for record in ExportReader(lines, "lines")
        if record.state in (RecordState.LIVE, RecordState.UPDATED, RecordState.PREPARED)
        and record.record_id is not None
    ]


def test_lines_are_ascii_json_with_all_fields_of_a_record(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(-3, 255, b"\xff\0body")
        opened.append_delete_tx(7, -3, b"why")
        opened.prepare(7, "\u00fc".encode())
    head, *records, end = map(json.loads, exported(tmp_path))
    assert head == {"binlog_journal": 1, "layout": "native", "file_bytes": 2048}
    assert end == {"records": 3, "problems": 0}
    lies = {"file": "journal-1.jnl", "file_id": 1}
    assert records == [
        {"kind": "add", "state": "live", "id": -3, "user_type": 255, "data": "/wBib2R5", **lies, "offset": 88},
        {"kind": "delete_tx", "state": "prepared", "transaction": 7, "id": -3, "data": "d2h5", **lies, "offset": 115},
        {
            "kind": "prepare", "state": "prepared", "transaction": 7, "data": "w7w=", "counts": [[1, 1]], **lies,
            "offset": 146,
        },
    ]  # fmt: skip


def test_the_oldest_layout_is_converted_by_export_and_import(tmp_path: Path) -> None:
    record = JournalRecord(Kind.ADD, 0, 1, 7, b"x" * 2000)
    write_file(tmp_path / "old", FileHeader(JournalLayout.JBM_2008_07, 1), [record])
    records = read_records(tmp_path / "old", layout=JournalLayout.JBM_2008_07)
    reader = ExportReader([line.encode() for line in export_lines(records)], "lines")
    assert reader.head.new_file_bytes is not None
    options = replace(SMALL, file_bytes=reader.head.new_file_bytes)
    import_journal(tmp_path / "new", reader, options)
    assert reload(tmp_path / "new", options).records == [Record(1, 7, b"x" * 2000)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[1:],
        lambda lines: lines[:-1],
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [lines[0], lines[1][:-9], *lines[2:]],
        lambda lines: [lines[0], lines[1].replace(b'"kind":"add"', b'"kind":"ADDED"'), *lines[2:]],
        lambda lines: [lines[0], lines[1].replace(b'"user_type":1', b'"user_type":256'), *lines[2:]],
        lambda lines: [lines[0], lines[1].replace(b'"id":', b'"id":1e3,"i":'), *lines[2:]],
        lambda lines: [lines[0], lines[1].replace(b'"data":"', b'"data":"*'), *lines[2:]],
        lambda lines: [lines[0], b"[]\n", *lines[1:]],
        lambda lines: [lines[0].replace(b'"binlog_journal":1', b'"binlog_journal":2'), *lines[1:]],
        lambda lines: [lines[0].replace(b'"native"', b'"other"'), *lines[1:]],
        lambda lines: [],
    ],
)
def test_damaged_or_missing_lines_import_nothing(tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]]) -> None:
    fill(tmp_path / "old", JournalLayout.NATIVE)
    lines = exported(tmp_path / "old")
    with pytest.raises(CorruptError):
        imported(damage(lines), tmp_path / "new")
    assert os.listdir(tmp_path) == ["old"]
    imported(lines, tmp_path / "new")


def test_an_import_needs_a_new_or_empty_folder(tmp_path: Path) -> None:
    with journal(tmp_path / "old") as (opened, _):
        opened.append_add(1, 1, bytes(1500))
    lines = exported(tmp_path / "old")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "file").touch()
    with pytest.raises(StateError, match="is not empty"):
        imported(lines, tmp_path / "new")
    (tmp_path / "new" / "file").unlink()
    imported(lines, tmp_path / "new")
    with pytest.raises(FullError):
        imported(lines, tmp_path / "small", replace(SMALL, file_bytes=1024, layout=None))
    assert sorted(os.listdir(tmp_path)) == ["new", "old"]


def test_an_export_of_a_damaged_journal_has_all_readable_records(tmp_path: Path) -> None:
    with journal(tmp_path / "old") as (opened, _):
        for number in range(1, 6):
            opened.append_add(number, 1, b"body")
        opened.append_update(2, 2, b"more")
    flip(tmp_path / "old" / "journal-1.jnl", 88 + 26 + 20)  # of the second record
    records = read_records(tmp_path / "old")
    assert [problem.rule for problem in records.problems] == ["gap", "update"]
    lines = [line.encode() for line in export_lines(records)]
    assert json.loads(lines[-1]) == {"records": 5, "problems": 2}
    done = imported(lines, tmp_path / "new")
    assert (done.record_count, done.skipped_count) == (4, 1)
    assert ids(reload(tmp_path / "new")) == [1, 3, 4, 5]


def test_records_that_no_journal_accepts_are_skipped(tmp_path: Path) -> None:
    def record(kind: Kind, tx_id: int | None, record_id: int | None) -> StoredRecord:
        state = RecordState.DONE if kind is Kind.COMMIT else RecordState.LIVE
        return StoredRecord("", 0, 0, kind, state, tx_id, record_id, 1, b"", ())

    records = [
        record(Kind.ADD, None, 1),
        record(Kind.ADD, None, 1),
        record(Kind.ADD_TX, 5, 1),
        record(Kind.COMMIT, 5, None),
        record(Kind.ADD_TX, 6, 2),
    ]
    done = import_journal(tmp_path / "new", records, SMALL)
    assert done == Imported(record_count=1, prepared_count=0, skipped_count=3)
    loaded = reload(tmp_path / "new")
    assert (ids(loaded), loaded.failed) == ([1], [])
