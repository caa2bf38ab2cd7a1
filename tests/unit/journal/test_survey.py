"""A survey of a journal, and its records as columns: against reading it record by record, and beside an owner."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from binlog.format.journal.file_header import JournalLayout
from binlog.journal import FilePart, PartReader, RecordKind, RecordState, survey_journal
from tests.support.journal_programs import programs, run
from tests.support.journals import SMALL
from tests.support.plain_journal import Row, plain_rows

_WIDTHS = {"kind": "B", "user_type": "B", "state": "B", "body_bytes": "i"}
# What a row has of a record, and not only of where it lies.
_SAID = ("kind", "state", "offset", "record_bytes")


def rows(part: FilePart) -> list[Row]:
    """The records of a part, read as in another process."""
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


@settings(max_examples=30, deadline=None)
@given(programs, st.sampled_from([JournalLayout.NATIVE, JournalLayout.JBM]), st.sampled_from([1, 64]))
def test_the_columns_are_what_reading_record_by_record_gives(
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
