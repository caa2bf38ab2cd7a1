"""Opening a journal: its states, its files, and its refusals."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import BusyError, ClosedError, CorruptError, StateError
from binlog.format.checksums import crc32c
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions
from tests.support.children import Child, run_script
from tests.support.journal_bytes import scan_records
from tests.support.journals import (
    FILE_BYTES,
    SMALL,
    files,
    header_for,
    header_of,
    ids,
    journal,
    reload,
    write_file,
)


def test_calls_too_early_or_twice_are_refused(tmp_path: Path) -> None:
    opened = Journal(tmp_path, SMALL)
    with pytest.raises(StateError):
        opened.load()
    with pytest.raises(StateError):
        opened.append_add(1, 0, b"")
    opened.start()
    with pytest.raises(StateError):
        opened.start()
    with pytest.raises(StateError):
        opened.append_add(1, 0, b"")
    opened.load()
    with pytest.raises(StateError):
        opened.load()
    with pytest.raises(StateError):
        opened.start()
    opened.append_add(1, 0, b"")
    opened.close()
    opened.close()
    with pytest.raises(ClosedError):
        opened.append_add(2, 0, b"")
    with pytest.raises(StateError):
        opened.load()
    assert ids(reload(tmp_path)) == [1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"file_bytes": 1023},
        {"files_min": 1},
        {"prefix": ""},
        {"extension": ""},
        {"prefix": "a/b"},
        {"alignment": 1000, "file_bytes": 1024},
        {"alignment": 0},
        {"alignment": 4096, "file_bytes": 4096},
        {"alignment": 1 << 17, "file_bytes": 1 << 20},
        {"compact_ratio": 1.1},
        {"compact_files_min": -1},
        {"pool_files": -1},
        {"flush_seconds": 0},
    ],
)
def test_invalid_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        JournalOptions(**wrong)  # type: ignore[arg-type]


def test_a_new_journal_has_its_files(tmp_path: Path) -> None:
    options = replace(SMALL, files_min=10)
    with journal(tmp_path, options) as (opened, loaded):
        assert loaded == ([], [], [], 0, [])
        found = files(tmp_path)
        assert len(found) == 10
        assert {file.stat().st_size for file in found} == {FILE_BYTES}
        kept = opened._files
        assert (len(kept.data), len(kept.free), kept.ahead is not None, kept.current is not None) == (0, 8, True, True)


@pytest.mark.parametrize(("files_min", "count"), [(20, 20), (5, 10), (2, 10)])
def test_missing_files_are_created_and_none_is_removed(tmp_path: Path, files_min: int, count: int) -> None:
    reload(tmp_path, replace(SMALL, files_min=10))
    before = {file.name for file in files(tmp_path)}
    reload(tmp_path, replace(SMALL, files_min=files_min))
    after = {file.name for file in files(tmp_path)}
    assert len(before) == 10
    assert before <= after
    assert len(after) == count


@pytest.mark.parametrize("layout", [JournalLayout.NATIVE, None])
def test_garbage_in_every_header_is_reported_and_nothing_is_changed(
    tmp_path: Path, layout: JournalLayout | None
) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 0, b"body")
    for file in files(tmp_path):
        data = bytearray(file.read_bytes())
        data[:8] = os.urandom(8)
        file.write_bytes(data)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CorruptError):
        reload(tmp_path, replace(SMALL, layout=layout))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_another_block_size_is_refused(tmp_path: Path) -> None:
    file = write_file(tmp_path, FileHeader(JournalLayout.NATIVE, 1, bytes(8)), [JournalRecord(Kind.ADD, record_id=1)])
    data = bytearray(file.read_bytes())
    data[12:16] = (32768).to_bytes(4)
    data[60:64] = crc32c(bytes(data[:60])).to_bytes(4)
    file.write_bytes(data)
    with pytest.raises(CorruptError, match="blocks of 32768 bytes"):
        reload(tmp_path)


@pytest.mark.parametrize(
    ("layout", "data"),
    [
        *((JournalLayout.NATIVE, data) for data in (b"", b"\0", b"BINLOGJL", b"BINLOGJL\0\0\0\1", b"BIN")),
        *((JournalLayout.JBM, data) for data in (b"", b"\0\0\0")),
    ],
)
def test_a_file_without_a_header_does_not_prevent_a_load(tmp_path: Path, layout: JournalLayout, data: bytes) -> None:
    options = replace(SMALL, layout=layout)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 0, b"body")
    (tmp_path / "journal-9.jnl").write_bytes(data)
    reported = [(problem.path, problem.rule) for problem in check_journal(tmp_path)]
    assert reported == [(str(tmp_path / "journal-9.jnl"), "short")]
    with journal(tmp_path, options) as (opened, loaded):
        assert ids(loaded) == [1]
        assert [(problem.path, problem.rule) for problem in loaded.problems] == reported
        assert opened._files.id_max >= 9  # the number in the name is not reused
    assert not (tmp_path / "journal-9.jnl").exists()
    kept = tmp_path / "quarantine" / "journal-9.jnl"
    assert kept.read_bytes() == data if data else not kept.exists()


@pytest.mark.slow
@pytest.mark.parametrize("layout", [JournalLayout.NATIVE, JournalLayout.JBM])
def test_file_ids_around_two_to_the_31st(tmp_path: Path, layout: JournalLayout) -> None:
    header = header_for(layout, 2**31 - 5)
    write_file(tmp_path, header, [JournalRecord(Kind.ADD, 0, 1, 7, b"first")])
    options = replace(SMALL, layout=layout)
    for number in range(2, 102):
        with journal(tmp_path, options) as (opened, loaded):
            assert ids(loaded) == list(range(1, number))
            assert not loaded.problems
            opened.append_add(number, 7, bytes(900))
    assert max(header_of(file, layout).file_id for file in files(tmp_path)) > 2**31 + 20


@pytest.mark.slow
def test_a_journal_has_one_owner(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        with pytest.raises(BusyError):
            Journal(tmp_path, SMALL).start()
        script = "import sys; from binlog.journal.journal import Journal; Journal(sys.argv[1]).start()"
        assert "BusyError" in run_script(script, tmp_path).stderr
        opened.append_add(1, 0, b"")

        def use_it() -> None:
            with pytest.raises(StateError):
                opened.append_add(2, 0, b"")
            opened.close()  # does nothing: the parent owns the journal

        Child(use_it).join()
        opened.append_add(3, 0, b"")
    assert ids(reload(tmp_path)) == [1, 3]


def test_a_forked_child_does_not_load_its_parents_journal(tmp_path: Path) -> None:
    def load() -> None:
        with pytest.raises(StateError):
            opened.load()

    with Journal(tmp_path, SMALL) as opened:
        Child(load).join()
        opened.load()


def test_the_layout_is_read_from_the_files(tmp_path: Path) -> None:
    jbm = replace(SMALL, layout=JournalLayout.JBM)
    with journal(tmp_path / "a", jbm) as (opened, _):
        opened.append_add(1, 7, b"body")
    with pytest.raises(CorruptError, match="say which"):
        reload(tmp_path / "a", SMALL)
    assert ids(reload(tmp_path / "a", jbm)) == [1]
    assert header_of(files(tmp_path / "a")[0]).layout is JournalLayout.JBM
    with pytest.raises(CorruptError):
        reload(tmp_path / "a", replace(SMALL, layout=JournalLayout.NATIVE))
    with journal(tmp_path / "b") as (opened, _):
        opened.append_add(1, 7, b"body")
    with pytest.raises(ValueError, match="'native'"):
        reload(tmp_path / "b", jbm)
    shutil.copy(files(tmp_path / "a")[0], tmp_path / "b" / "journal-77.jnl")
    with pytest.raises(CorruptError, match="layout"):
        reload(tmp_path / "b", SMALL)


def test_two_files_with_the_same_id_are_refused(tmp_path: Path) -> None:
    reload(tmp_path)
    shutil.copy(files(tmp_path)[0], tmp_path / "journal-77.jnl")
    with pytest.raises(CorruptError, match="its id is 1"):
        reload(tmp_path)


def test_an_unfinished_file_is_removed(tmp_path: Path) -> None:
    reload(tmp_path)
    (tmp_path / "journal-3.jnl.tmp").write_bytes(b"half")
    (tmp_path / "other.tmp").write_bytes(b"not the journal's")
    reload(tmp_path)
    assert not (tmp_path / "journal-3.jnl.tmp").exists()
    assert (tmp_path / "other.tmp").exists()


@pytest.mark.parametrize("records", [[], [JournalRecord(Kind.ADD, 0, 7, 1, b"here")]], ids=["free", "used"])
def test_leftovers_in_a_reused_file_of_jboss_messaging_are_no_damage(
    tmp_path: Path, records: list[JournalRecord]
) -> None:
    """Also after the last record, although no field marks it as the last."""
    left = pack_record(JournalRecord(Kind.ADD, 0, 0x40B, 1, bytes(100)), FileHeader(JournalLayout.JBM, 3), 0)
    write_file(tmp_path, FileHeader(JournalLayout.JBM, 90), [JournalRecord(Kind.ADD, 0, 6, 1, b"before")])
    header = FileHeader(JournalLayout.JBM, 100)
    file = write_file(tmp_path, header, [*records, left, b"J" * 50])
    assert len(scan_records(file.read_bytes(), header).suspects) == 1
    assert check_journal(tmp_path) == []
    loaded = reload(tmp_path, replace(SMALL, layout=JournalLayout.JBM))
    assert (ids(loaded), loaded.problems) == ([6, *(record.record_id for record in records)], [])
    assert not (tmp_path / "quarantine").exists()
