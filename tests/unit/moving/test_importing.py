"""Records of JSON lines, CSV and pipes, and lines that are not of their form or not complete."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlog
from binlog.moving import Imported, ImportForm, import_records
from binlog.moving.importing import importing
from binlog.moving.importing.text_forms import CsvRows
from tests.support.logs import read_all
from tests.support.waiting import until


def _import(log: Path, text: str | bytes, form: ImportForm, **options: bool) -> Imported:
    path = log.parent / "input"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_records(log, path, form, **options)


def test_lines_are_records_as_they_are(log: Path) -> None:
    done = _import(log, '{"a": 1}\n[2,\t"\u00e9"]\r\n\n"three"\n', ImportForm.JSONL)
    assert read_all(log) == [b'{"a": 1}', '[2,\t"\u00e9"]'.encode(), b'"three"']
    assert done == Imported(record_count=3, first=binlog.Ref(1, 256))


def test_a_line_that_is_not_json_is_named_and_the_lines_before_it_are_imported(log: Path) -> None:
    with pytest.raises(ValueError, match="line 3: not JSON"):
        _import(log, "1\n\nnonsense\n2\n", ImportForm.JSONL)
    assert read_all(log) == [b"1"]
    done = _import(log, "1\n\nnonsense\n2\n", ImportForm.JSONL, lenient=True)
    assert read_all(log) == [b"1", b"nonsense", b"2"]
    assert done.skipped_bytes == len("1\n\n")


@pytest.mark.parametrize("line", [b"\xff", b"NaN", b"[" * 100_000, b'{"a":1', b"1 2"])
def test_a_line_is_json_or_refused(log: Path, line: bytes) -> None:
    with pytest.raises(ValueError, match="line 1"):
        _import(log, line + b"\n", ImportForm.JSONL)
    assert read_all(log) == []


def test_a_number_of_any_length_is_json(log: Path) -> None:
    assert _import(log, b"9" * 10_000 + b"\n", ImportForm.JSONL).record_count == 1


def test_a_last_line_without_newline_is_left_until_it_is_complete(log: Path) -> None:
    assert _import(log, "1\n2", ImportForm.JSONL).left_bytes == 1
    assert read_all(log) == [b"1"]
    path = log.parent / "input"
    with path.open("a") as file:
        file.write("3\n")
    assert import_records(log, path, ImportForm.JSONL).left_bytes == 0
    assert read_all(log) == [b"1", b"23"]


def test_the_last_line_of_a_file_that_is_whole_is_imported(log: Path) -> None:
    assert _import(log, "1\n2", ImportForm.JSONL, whole=True).left_bytes == 0
    assert read_all(log) == [b"1", b"2"]


def test_each_row_is_an_object_with_the_names_of_the_first_row(log: Path) -> None:
    _import(log, '\ufeffid,text\n1,"two\nlines"\n\n2,"a ""quote"""\n', ImportForm.CSV)
    assert [json.loads(record) for record in read_all(log)] == [
        {"id": "1", "text": "two\nlines"},
        {"id": "2", "text": 'a "quote"'},
    ]


def test_a_row_that_is_not_complete_is_left(log: Path) -> None:
    assert _import(log, 'a,b\n1,2\n3,"x\n', ImportForm.CSV).left_bytes == 5
    path = log.parent / "input"
    with path.open("a") as file:
        file.write('y"\n')
    import_records(log, path, ImportForm.CSV)
    assert [json.loads(record) for record in read_all(log)] == [{"a": "1", "b": "2"}, {"a": "3", "b": "x\ny"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,a\n", "line 1: two columns"), ("a,b\n1\n", "line 2: the row has 1"), ('a\n"x"y\n', "line 2: not CSV")],
)
def test_csv_that_is_not_regular_is_refused(log: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _import(log, text, ImportForm.CSV)
    assert read_all(log) == []


def test_rows_of_other_lengths_are_taken_on_request(log: Path) -> None:
    _import(log, "a,b\n1\n1,2,3\n", ImportForm.CSV, lenient=True)
    assert [json.loads(record) for record in read_all(log)] == [{"a": "1"}, {"a": "1", "b": "2", "3": "3"}]


_VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.lists(st.lists(_VALUES, min_size=3, max_size=3), max_size=8), st.integers(1, 20))
def test_rows_that_the_csv_module_writes_are_read_with_their_places(rows: list[list[str]], size: int) -> None:
    """size: of each read, so that rows and characters are cut anywhere."""
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([["a", "b", "c"], *rows])
    data = written.getvalue().encode()
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        sender = threading.Thread(target=_send, args=(writing, data, size))
        sender.start()
        reader = importing.InputReader(pipe.fileno(), whole=True, before_wait=lambda: None)
        made = CsvRows()
        made.read_names(reader)
        found = [json.loads(record) for record in made.records(reader, lenient=False)]
        sender.join()
    assert [list(row.values()) for row in found] == rows
    assert reader.mark().offset == len(data)


def _send(fd: int, data: bytes, size: int) -> None:
    with os.fdopen(fd, "wb", buffering=0) as pipe:
        for at in range(0, len(data), size):
            pipe.write(data[at : at + size])


def test_the_records_of_a_pipe_are_durable_when_it_pauses(log: Path) -> None:
    reading, writing = os.pipe()
    worker = threading.Thread(target=import_records, args=(log, reading, ImportForm.JSONL))
    worker.start()
    os.write(writing, b"1\n2\n")
    until(lambda: (log / "00000001.dat").exists() and read_all(log) == [b"1", b"2"])
    os.write(writing, b"3")
    os.close(writing)
    worker.join()
    os.close(reading)
    assert read_all(log) == [b"1", b"2", b"3"]


def test_a_long_line_is_refused_and_those_before_it_are_imported(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog.moving.importing.input_reader.LINE_BYTES_MAX", 100)
    monkeypatch.setattr("binlog.moving.importing.input_reader._READ_BYTES", 10)
    with pytest.raises(ValueError, match="line 2: it is longer than 100"):
        _import(log, "1\n" + "2" * 200, ImportForm.JSONL)
    assert read_all(log) == [b"1"]


@pytest.mark.parametrize(
    ("form", "text", "imported"),
    [
        (ImportForm.JSONL, "1\n" + "2" * 101 + "\n3\n", b"1"),
        (ImportForm.CSV, "a\n1\n" + '"' + '""' * 60 + '"\n3\n', b'{"a":"1"}'),
    ],
)
def test_a_record_that_is_too_long_is_refused_and_those_before_it_are_imported(
    log: Path, monkeypatch: pytest.MonkeyPatch, form: ImportForm, text: str, imported: bytes
) -> None:
    monkeypatch.setattr("binlog.moving.importing.input_reader.LINE_BYTES_MAX", 100)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"line [23]: it is longer than 100"):
            _import(log, text, form)
        assert read_all(log) == [imported]


def test_a_byte_order_mark_is_left_out(log: Path) -> None:
    _import(log, '\ufeff{"a":1}\n{"a":2}\n', ImportForm.JSONL)
    assert read_all(log) == [b'{"a":1}', b'{"a":2}']


def test_many_batches_hold_all_records_in_order(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_BATCH_RECORDS", 7)
    monkeypatch.setattr("binlog.moving.importing.input_reader._READ_BYTES", 50)
    counts: list[int] = []
    path = log.parent / "input"
    path.write_text("".join(f"{number}\n" for number in range(100)))
    done = import_records(log, path, ImportForm.JSONL, on_append=lambda so_far: counts.append(so_far.record_count))
    assert counts == [*range(7, 100, 7), 100]
    assert done.record_count == 100
    assert read_all(log) == [b"%d" % number for number in range(100)]


def test_a_file_that_does_not_exist_leaves_no_log(tmp_path: Path) -> None:
    with pytest.raises(binlog.AccessError):
        import_records(tmp_path / "log", tmp_path / "missing", ImportForm.JSONL)
    assert not (tmp_path / "log").exists()
