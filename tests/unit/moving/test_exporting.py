"""Exports: the same rows in each format, limits by ref and time, events, bytes of any kind, damage, memory."""

from __future__ import annotations

import base64
import csv
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import binlog
from binlog import BusyError, CorruptError, Mode, Since, Writer
from binlog.moving import ExportForm, export_records
from binlog.moving.exporting.rows import EVENT_COLUMNS, event_of
from binlog.moving.exporting.unfinished_file import unfinished_file
from tests.support.logs import read_all
from tests.support.turns import in_turn

EVENT = {
    "time": "2026-11-27T12:00:00.000001Z",
    "severity": 13,
    "level": "WARNING",
    "logger": "app.db",
    "body": 'slow, "very"\nslow',
    "attributes": {"order": 7, "name": "\u00fc"},
    "trace_id": "0" * 32,
    "other": 1,
}
RECORDS = [
    json.dumps(EVENT).encode(),
    b"plain",
    b"\xff\0\n",
    b"",
    b'{"severity":"high","body":{"a":[1]}}',
    b"[1]",
    b"{",
    b"first\rsecond",
]

Row = dict[str, Any]


def _fill(log: Path, records: list[bytes]) -> None:
    with Writer(log) as writer:
        for record in records:
            writer.append(record)
        writer.cutover()
        writer.append_many(records, mode=Mode.SYNC)


def _from_json_lines(path: Path) -> list[Row]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        assert row.pop("ref") == f"{row['number']}:{row['offset']}"
        _take_data(row)
    return rows


def _take_data(row: Row) -> None:
    text, encoded = row.pop("text", None), row.pop("base64", None)
    row["data"] = base64.b64decode(encoded) if text is None else text.encode()


def _from_csv(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        rows: list[Row] = list(csv.DictReader(file))
    for row in rows:
        if row["base64"]:
            row["text"] = None
        _take_data(row)
        for name in ("number", "offset", "sequence", "severity"):
            row[name] = int(row[name]) if row[name] else None
    return [{name: value for name, value in row.items() if value not in (None, "")} for row in rows]


def _from_sqlite(path: Path) -> list[Row]:
    with sqlite3.connect(path) as database:
        database.row_factory = sqlite3.Row
        rows = [dict(row) for row in database.execute("SELECT * FROM records ORDER BY number, offset")]
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    database.close()
    for row in rows:
        row["data"] = row["data"].encode() if isinstance(row["data"], str) else row["data"]
    return rows


def _from_parquet(path: Path) -> list[Row]:
    rows: list[Row] = parquet.read_table(path).to_pylist()
    for row in rows:
        row["appended"] = row["appended"].isoformat(timespec="microseconds").replace("+00:00", "Z")
    return rows


READERS: dict[ExportForm, Callable[[Path], list[Row]]] = {
    ExportForm.JSONL: _from_json_lines,
    ExportForm.CSV: _from_csv,
    ExportForm.SQLITE: _from_sqlite,
    ExportForm.PARQUET: _from_parquet,
}


def _rows(log: Path, form: ExportForm, **limits: Any) -> list[Row]:
    out = log.parent / "out"
    done = export_records(log, out, form, **limits)
    rows = READERS[form](out)
    assert done.record_count == len(rows)
    assert done.file_bytes == out.stat().st_size
    assert list(log.parent.glob(".*")) == []
    return rows


@pytest.mark.parametrize("form", ExportForm)
def test_each_format_has_all_records_with_places_times_and_events(log: Path, form: ExportForm) -> None:
    _fill(log, RECORDS)
    rows = _rows(log, form)
    with binlog.Reader(log) as reader:
        entries = list(reader)
    assert [binlog.Ref(row["number"], row["offset"]) for row in rows] == [entry.ref for entry in entries]
    assert [row["sequence"] for row in rows] == list(range(len(entries)))
    assert [row.get("data", b"") for row in rows] == [entry.data for entry in entries]
    times = [datetime.fromisoformat(row["appended"]) for row in rows]
    assert times == [entry.time for entry in entries]
    for row in (rows[0], rows[len(RECORDS)]):
        assert json.loads(row["attributes"]) == EVENT["attributes"]
        kept = {name: EVENT[name] for name in EVENT_COLUMNS if name in EVENT and name != "attributes"}
        assert {name: row[name] for name in kept} == kept
        assert row.get("event") is None
    assert [row.get("severity") for row in rows[: len(RECORDS)]] == [13] + [None] * (len(RECORDS) - 1)
    assert rows[4]["body"] == '{"a":[1]}'


@pytest.mark.parametrize("form", ExportForm)
def test_an_empty_log_gives_an_empty_file_of_the_format(log: Path, form: ExportForm) -> None:
    Writer(log).close()
    assert _rows(log, form) == []


def test_limits_by_ref_and_time_select_as_a_scan_does(log: Path, clock_steps: Callable[[], float]) -> None:
    refs, moments = [], []
    with Writer(log) as writer:
        for number in range(40):
            moments.append(clock_steps())
            refs.append(writer.append(b"%d" % number))
            if number % 7 == 0:
                writer.cutover()
    with binlog.Reader(log) as reader:
        entries = [(entry.ref, entry.time) for entry in reader]
    for ref in refs[::5]:
        expected = [each for each, _ in entries if each >= ref]
        assert [binlog.Ref(row["number"], row["offset"]) for row in _rows(log, ExportForm.JSONL, start=ref)] == expected
    for since, until in ((3, 20), (0, 1), (39, 40), (10, 10), (20, 3)):
        earliest, latest = entries[since][1], entries[until - 1][1]
        rows = _rows(log, ExportForm.JSONL, since=Since(earliest), until=Since(latest))
        expected = [each for each, time in entries if earliest <= time < latest]
        assert [binlog.Ref(row["number"], row["offset"]) for row in rows] == expected


@pytest.fixture
def clock_steps() -> Callable[[], float]:
    """Wait until the clock has moved, so that two records have different times."""
    import time

    def step() -> float:
        now = time.time_ns()
        while time.time_ns() // 1000 == now // 1000:
            pass
        return time.time()

    return step


def test_archives_are_exported_too(log: Path) -> None:
    _fill(log, RECORDS)
    before = _rows(log, ExportForm.SQLITE)
    binlog.archive(log)
    assert _rows(log, ExportForm.SQLITE) == before


@pytest.mark.slow
def test_json_lines_can_be_appended_again(log: Path, tmp_path: Path) -> None:
    from tests.unit.cli.run_command import run

    _fill(log, RECORDS)
    out = tmp_path / "out.jsonl"
    export_records(log, out, "jsonl")
    assert run("append", tmp_path / "copy", out, "--from-json").returncode == 0
    assert read_all(tmp_path / "copy") == read_all(log)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(["time", "severity", "level", "logger", "body", "event", "attributes", "trace_id", "span_id"])


@given(st.binary(max_size=30) | st.dictionaries(_KEYS, _JSON).map(lambda fields: json.dumps(fields).encode()))
@pytest.mark.slow
def test_any_record_has_columns_that_every_format_can_hold(record: bytes) -> None:
    values = event_of(record)
    assert len(values) == len(EVENT_COLUMNS)
    for name, value in zip(EVENT_COLUMNS, values, strict=True):
        assert value is None or type(value) is (int if name == "severity" else str)
        if isinstance(value, str):
            value.encode()


@pytest.mark.parametrize("record", [b"{" * 100_000, b'{"body":' + b"[" * 100_000, b'{"severity":' + b"9" * 5000 + b"}"])
def test_hostile_json_is_no_event(record: bytes) -> None:
    assert set(event_of(record)) == {None}


def test_the_events_are_those_that_cat_shows_and_attributes_are_json() -> None:
    assert event_of(b' {"body":"after a space"}')[EVENT_COLUMNS.index("body")] == "after a space"
    assert set(event_of(b'{"body":"x","attributes":{"a":NaN}}')) == {None}  # NaN is not JSON
    infinite = event_of(b'{"body":"x","attributes":{"a":1e999}}')
    assert (infinite[EVENT_COLUMNS.index("body")], infinite[EVENT_COLUMNS.index("attributes")]) == ("x", None)


def test_damaged_records_are_an_error_and_leave_the_earlier_file(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"%d" % number * 50 for number in range(100)])
        writer.cutover()
    out = tmp_path / "out"
    out.write_text("earlier")
    path = log / "00000001.dat"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptError, match="repair"):
        export_records(log, out, "csv")
    assert out.read_text() == "earlier"
    assert list(tmp_path.glob(".*")) == []
    binlog.repair(log)
    export_records(log, out, "csv")
    for damaged in log.glob("*.damaged"):
        damaged.unlink()


def test_two_exports_to_one_file_exclude_each_other(log: Path, tmp_path: Path) -> None:
    _fill(log, RECORDS)
    out = tmp_path / "out"
    with unfinished_file(str(out)), pytest.raises(BusyError, match="another process writes"):
        export_records(log, out, "jsonl")
    assert out.exists()


@pytest.mark.slow
@pytest.mark.parametrize("form", in_turn(ExportForm))
def test_the_memory_of_an_export_does_not_grow_with_the_log(
    log: Path, form: ExportForm, figure: Callable[[str], None]
) -> None:
    record = json.dumps(EVENT | {"body": "x" * 700}).encode()
    with Writer(log) as writer:
        for _ in range(60):
            writer.append_many([record] * 1000, mode=Mode.FLUSH)
    program = f"""
from pathlib import Path
from binlog.moving import export_records
{"import pyarrow.parquet" if form is ExportForm.PARQUET else ""}
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far (proc(5))
before = peak()
export_records({str(log)!r}, {str(log.parent / "out")!r}, {form.value!r})
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    used = float(done.stdout)
    figure(f"export of 60 MB to {form.value}: {used:.0f} MiB of memory")
    # PyArrow takes some 100 MiB, however many rows there are.
    assert 0 < used < (200 if form is ExportForm.PARQUET else 45)
