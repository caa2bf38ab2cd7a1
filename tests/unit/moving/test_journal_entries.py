"""Entries of systemd's journal: the formats of journalctl, its files, and streams that begin again or are cut."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from binlog.moving import Imported, import_records
from binlog.moving.importing import importing
from tests.support.logs import read_all

GOLDEN = Path(__file__).parent / "journal"
EXPORT = (GOLDEN / "entries.export").read_bytes()
JSON = (GOLDEN / "entries.json").read_bytes()
CURSORS = [json.loads(line)["__CURSOR"] for line in JSON.splitlines()]
COUNT = 9


def _import(log: Path, data: bytes, name: str = "journald") -> Imported:
    path = log.parent / "input"
    path.write_bytes(data)
    return import_records(log, path, "journald", name=name)


def _fields(log: Path) -> list[dict[str, object]]:
    return [json.loads(record) for record in read_all(log)]


def _cursors(log: Path) -> list[object]:
    return [entry["__CURSOR"] for entry in _fields(log)]


def test_both_formats_give_the_same_entries(log: Path, tmp_path: Path) -> None:
    assert _import(log, JSON).record_count == COUNT
    assert read_all(log) == JSON.splitlines()
    other = tmp_path / "other"
    assert _import(other, EXPORT).record_count == COUNT
    assert _fields(other) == _fields(log)
    binary = _fields(other)[-1]
    assert binary["BLOB"] == list(b"\xff\0bin")
    assert _fields(other)[-2]["MESSAGE"] == "two\nlines"
    assert _fields(other)[-2]["TAG"] == ["one", "two"]


def test_entries_are_appended_once_in_whichever_format_they_come(log: Path) -> None:
    half = EXPORT.index(b"\n\n", len(EXPORT) // 2) + 2
    first = _import(log, EXPORT[:half])
    assert 0 < first.record_count < COUNT
    second = _import(log, JSON)
    assert (second.record_count, second.skipped_count) == (COUNT - first.record_count, first.record_count)
    assert _cursors(log) == CURSORS


@pytest.mark.parametrize("data", [EXPORT, JSON])
@pytest.mark.slow
def test_an_entry_that_is_cut_anywhere_is_left_for_the_next_import(log: Path, data: bytes) -> None:
    for end in range(0, len(data), 97):
        _import(log, data[:end])
    _import(log, data)
    assert _cursors(log) == CURSORS


def test_a_pipe_has_the_same_place(log: Path) -> None:
    for data in (EXPORT[:2000], EXPORT):
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        import_records(log, reading, "journald")
        os.close(reading)
    assert len(read_all(log)) == COUNT


def test_streams_with_other_names_have_their_own_places(log: Path) -> None:
    _import(log, JSON)
    assert _import(log, JSON, name="errors").record_count == COUNT


def test_two_counters_have_their_own_places(log: Path) -> None:
    lines = JSON.splitlines(keepends=True)
    counter = json.loads(lines[0])["__CURSOR"][2:34].encode()
    others = [line.replace(counter, b"f" * 32) for line in lines]
    mixed = b"".join(line for pair in zip(lines, others, strict=True) for line in pair)
    assert _import(log, mixed).record_count == 2 * COUNT
    assert _import(log, mixed).skipped_count == 2 * COUNT
    assert read_all(log) == mixed.splitlines()


def test_entries_in_reverse_are_refused(log: Path) -> None:
    with pytest.raises(ValueError, match="--reverse"):
        _import(log, b"".join(reversed(JSON.splitlines(keepends=True))))
    assert len(read_all(log)) == 1


@pytest.mark.parametrize(
    "data", [b"nonsense\n", b'{"MESSAGE":"x"}\n', b"MESSAGE=x\n\n", b"\xff=x\n\n", b"A\n" + b"\xff" * 8, b"{]\n"]
)
def test_other_input_is_refused(log: Path, data: bytes) -> None:
    with pytest.raises(ValueError, match="line"):
        _import(log, data + b"12345678")
    assert read_all(log) == []


def test_a_file_of_the_journal_is_read_by_journalctl(log: Path, tmp_path: Path) -> None:
    if shutil.which("journalctl") is None:
        pytest.skip("journalctl is not installed")
    path = tmp_path / "system.journal"
    path.write_bytes(gzip.decompress((GOLDEN / "entries.journal.gz").read_bytes()))
    assert import_records(log, path, "journald").record_count == COUNT
    assert _cursors(log) == CURSORS
    path.write_bytes(b"nonsense")
    with pytest.raises(importing.AccessError, match="journalctl ended with"):
        import_records(log, path, "journald")
