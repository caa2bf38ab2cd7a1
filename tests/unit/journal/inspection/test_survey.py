"""A survey of a journal and its columns, against records read one by one, and beside an owner."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog.errors import BusyError, GoneError, NotFoundError
from binlog.format.journal.file_header import JournalLayout
from binlog.journal import FilePart, PartReader, RecordKind, RecordState, survey_journal
from binlog.journal.files.listing import FileUse, read_use
from tests.support.examples import examples
from tests.support.journal_programs import programs, run
from tests.support.journals import SMALL, files, journal
from tests.support.plain_journal import Row, plain_rows

_READING = "binlog.journal.inspection.inspection.read_use"
_WIDTHS = {"kind": "B", "user_type": "B", "state": "B", "body_bytes": "i", "counts_bytes": "i"}


def rows(part: FilePart) -> list[Row]:
    """Read the records of a part, as another process would."""
    found: list[Row] = []
    data = Path(part.path).read_bytes()
    for columns in PartReader(pickle.loads(pickle.dumps(part))):
        numbers = {name: memoryview(column).cast(_WIDTHS.get(name, "q")) for name, column in columns.columns.items()}
        offsets, sizes = columns.columns["body_offset"], columns.columns["body_bytes"]
        count, bounds, values = columns.bodies(offsets, sizes, 0, 1 << 30)
        assert count == columns.count
        bodies = [values[start:stop] for start, stop in itertools.pairwise(memoryview(bounds).cast("i"))]
        for index, body in enumerate(bodies):
            row = {name: column[index] for name, column in numbers.items()}
            assert data[row["body_offset"] :].startswith(body)
            row |= {"kind": RecordKind(row["kind"]).name.lower(), "state": RecordState(row["state"]).name.lower()}
            found.append({**row, "data": body, "file": part.name, "file_id": part.header.file_id})
    return found


def all_rows(path: Path, layout: JournalLayout | None = None) -> list[Row]:
    found = survey_journal(path, layout=layout)
    assert found.problems == ()
    return [row for file in found.files for row in rows(file.part)]


@settings(max_examples=examples(30), deadline=None)
@given(programs, st.sampled_from([JournalLayout.NATIVE, JournalLayout.JBM]), st.sampled_from([1, 64]))
@pytest.mark.slow
def test_columns_equal_the_records_read_one_by_one(
    program: list[tuple[str, tuple[object, ...]]], layout: JournalLayout, alignment: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        run(program, path, replace(SMALL, file_bytes=1024, layout=layout, alignment=alignment))
        found, expected = all_rows(path), plain_rows(path)
        keys = ("file", "file_id", "offset", "kind", "state", "record_bytes")
        assert [[row[key] for key in keys] for row in found] == [[row[key] for key in keys] for row in expected]
        for row, plain in zip(found, expected, strict=True):
            assert row["data"] == (plain["data"] or b"")
            assert row["record_id"] == (plain["id"] or 0)
            assert row["tx_id"] == (plain["transaction"] or 0)
            assert row["user_type"] == (plain["user_type"] or 0)
        for file in survey_journal(path).files:
            inside = [row for row in found if row["file"] == file.part.name]
            assert file.record_ids == (min(row["record_id"] for row in inside), max(row["record_id"] for row in inside))
            assert file.tx_ids == (min(row["tx_id"] for row in inside), max(row["tx_id"] for row in inside))
            assert {RecordKind(kind).name.lower() for kind in file.kinds} == {row["kind"] for row in inside}
            assert {RecordState(state).name.lower() for state in file.states} == {row["state"] for row in inside}


@pytest.mark.parametrize("layout", [JournalLayout.NATIVE, JournalLayout.JBM])
def test_a_survey_is_of_one_moment_while_the_owner_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: JournalLayout
) -> None:
    """A transaction that begins in a file already read and continues in one not yet read is in both or in none."""
    with journal(tmp_path, replace(SMALL, layout=layout, files_min=6)) as (opened, _):
        for number in range(30):
            opened.append_add(number, 1, bytes(100))
        reads: list[str] = []

        def read_and_append(file: FileUse) -> bytes:
            data = read_use(file)
            reads.append(file.name)
            if len(reads) == 2:
                for number in range(1000, 1008):
                    opened.append_add_tx(number, number, 1, bytes(100))
                    opened.append_update_tx(number, number % 30, 2, bytes(100))
                    opened.commit(number)
            return data

        monkeypatch.setattr(_READING, read_and_append)
        found = all_rows(tmp_path)
        monkeypatch.undo()
        assert len(set(reads)) > 2
        expected = plain_rows(tmp_path)
    places = [(row["file_id"], row["offset"]) for row in found]
    assert len(places) > 30
    assert places == [(row["file_id"], row["offset"]) for row in expected[: len(places)]]
    assert "failed" not in {row["state"] for row in found}


def test_an_unfinished_write_is_damage_only_if_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"body")
        [file] = files(tmp_path)[:1]
        at = 88 + 21 + 4
        half = iter([b"\x0b\0\0", b"\x0b\0\0\0\x01"])

        def read_while_written(seen: FileUse) -> bytes:
            data = read_use(seen)
            return data[:at] + next(half, bytes(5)).ljust(5, b"\0") + data[at + 5 :] if seen.name == file.name else data

        monkeypatch.setattr(_READING, read_while_written)
        assert survey_journal(tmp_path).problems == ()
        monkeypatch.undo()
        assert [row["record_id"] for row in all_rows(tmp_path)] == [1]


def test_a_folder_without_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is no journal"):
        survey_journal(tmp_path)
    with journal(tmp_path):
        pass
    assert survey_journal(tmp_path).files == ()


def test_a_file_that_is_reused_constantly_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"")

    def gone(file: FileUse) -> bytes:
        raise GoneError(file.path)

    monkeypatch.setattr(_READING, gone)
    with pytest.raises(BusyError):
        survey_journal(tmp_path)
