"""What is damaged is set aside, all of it, once, and in place of nothing; and is seen for what it is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import BinlogError, CorruptError
from binlog.format.journal.block import HEAD_BYTES
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.journal import loading
from binlog.journal.attic import keep_copy, move_file
from binlog.journal.check import check_journal
from binlog.journal.journal import Journal
from binlog.journal.journal_file import JournalFile
from binlog.journal.options import JournalOptions
from binlog.journal.record import Loaded
from binlog.storage.directory import Directory
from tests.support.journals import FILE_BYTES, SMALL, files, flip, header_of, ids, journal, records_in, reload

# Of which a write takes less than what lies behind the records.
_OPTIONS = replace(SMALL, buffer_bytes=100)


def _kept(path: Path) -> dict[str, bytes]:
    folder = path / "attic"
    return {file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {}


def _damage_tail(path: Path) -> bytes:
    """Have something lie behind the last record, up to the end of its file; what."""
    with journal(path, _OPTIONS) as (opened, _):
        opened.append_add(1, 1, b"")
    (file,) = [each for each in files(path) if records_in(each)]
    end = records_in(file)[-1][2]
    rest = bytes(range(1, 256)) * 8
    file.write_bytes(file.read_bytes()[:end] + rest[: FILE_BYTES - end])
    return rest[: FILE_BYTES - end]


@pytest.mark.parametrize("left", [64, 70, 88, 88 + 22, 1023])
def test_a_file_that_was_cut_to_no_size_of_one_is_told_and_set_aside(tmp_path: Path, left: int) -> None:
    """Though where it ends now no record is broken off, and nothing else says that there were any behind."""
    with journal(tmp_path) as (opened, _):
        for number in range(5):
            opened.append_add(number, 1, b"" if number < 1 else bytes(1100))
    (last,) = [file for file in files(tmp_path) for each in records_in(file) if each[4] == 4]
    (first,) = [file for file in files(tmp_path) for each in records_in(file) if each[4] == 0]
    for file in (last, first):
        file.write_bytes(file.read_bytes()[:left])
    told = {(problem.path, problem.rule) for problem in check_journal(tmp_path)}
    assert {(str(last), "file_bytes"), (str(first), "file_bytes")} <= told
    cut = {file.read_bytes() for file in (last, first)}
    with journal(tmp_path) as (opened, loaded):
        assert {(problem.path, problem.rule) for problem in loaded.problems} >= told
        for record_id in ids(loaded):
            opened.append_delete(record_id)
        for number in range(10, 14):
            opened.append_add(number, 1, bytes(1100))
        opened.reclaim()
    assert cut <= set(_kept(tmp_path).values())
    loaded = reload(tmp_path)
    assert (ids(loaded), loaded.problems) == ([10, 11, 12, 13], [])


def test_all_that_lies_behind_the_records_is_set_aside_once(tmp_path: Path) -> None:
    rest = _damage_tail(tmp_path)
    assert len(rest) > 4 * _OPTIONS.buffer_bytes
    loaded = reload(tmp_path, _OPTIONS)
    assert [problem.rule for problem in loaded.problems] == ["tail"]
    assert list(_kept(tmp_path).values()) == [rest]
    assert not reload(tmp_path, _OPTIONS).problems
    assert list(_kept(tmp_path).values()) == [rest]


def test_a_load_that_fails_behind_it_does_not_do_it_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = _damage_tail(tmp_path)

    def failing(*arguments: object) -> None:
        keep_copy(*arguments)  # type: ignore[arg-type]
        raise CorruptError("a file", 0, "test", "the load goes no further")

    with Journal(tmp_path, _OPTIONS) as opened:
        monkeypatch.setattr(loading, "keep_copy", failing)
        for _ in range(3):
            with pytest.raises(CorruptError):
                opened.load()
        monkeypatch.undo()
        assert ids(opened.load()) == [1]
    assert list(_kept(tmp_path).values()) == [rest]


def test_nothing_in_it_is_replaced(tmp_path: Path) -> None:
    with Directory(str(tmp_path)) as directory:
        for data in (b"one", b"two", b"one", b"three", b"two"):
            keep_copy(directory, "copy", data)
        for data in (b"first", b"second"):
            (tmp_path / "file").write_bytes(data)
            move_file(directory, "file", "copy")
        (tmp_path / "empty").touch()
        move_file(directory, "empty", "copy")
    assert sorted(_kept(tmp_path).values()) == sorted([b"one", b"two", b"three", b"first", b"second"])
    assert [each.name for each in tmp_path.iterdir()] == ["attic"]


def test_the_attic_is_there_durably_before_anything_comes_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could leave a file that has left the folder, and no attic."""
    done: list[str] = []
    rename = os.rename

    def noted(*arguments: object, **named: object) -> None:
        done.append("rename")
        rename(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Directory, "sync", lambda directory: done.append(os.path.basename(directory.path)))
    monkeypatch.setattr(os, "rename", noted)
    (tmp_path / "file").write_bytes(b"x")
    with Directory(str(tmp_path)) as directory:
        move_file(directory, "file", "file")
    assert done == [tmp_path.name, "rename", "attic", tmp_path.name]


def test_it_is_in_the_journals_folder_whatever_that_is_called(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    _damage_tail(path)
    opened = Journal(path, _OPTIONS)
    opened.start()
    path.rename(tmp_path / "moved")
    path.mkdir()
    opened.load()
    opened.close()
    assert len(_kept(tmp_path / "moved")) == 1
    assert not list(path.iterdir())


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    _damage_tail(path)
    (tmp_path / "elsewhere").mkdir()
    (path / "attic").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BinlogError):
        reload(path, _OPTIONS)
    assert not list((tmp_path / "elsewhere").iterdir())


def _used_again(path: Path, options: JournalOptions) -> Path:
    """A file that had records, and now has one of its next use alone; it is the last one."""
    with journal(path, options) as (opened, _):
        for number in range(200):
            opened.append_add(number, 1, bytes(100))
            opened.append_delete(number)
            if number % 10 == 0:
                opened.reclaim()
        for number in range(1000, 1200):
            opened.append_add(number, 1, bytes(100))
            current = opened._files.current
            assert current is not None
            file = Path(current.path)
            # Not one that was made just now, for the others were not free yet.
            if len(records_in(file)) == 1 and JournalNames().number(file.name) != header_of(file).file_id:
                break
    assert file.read_bytes().strip(b"\0") != file.read_bytes()[: records_in(file)[0][2]]
    return file


def _told(loaded: Loaded, file: Path) -> bool:
    return any(problem.path == str(file) for problem in loaded.problems)


@pytest.mark.parametrize("at", [0, 4, 8, HEAD_BYTES])
def test_a_flipped_bit_that_has_the_only_record_of_a_file_be_none_is_told(tmp_path: Path, at: int) -> None:
    """Not taken for what the file had in an earlier use."""
    file = _used_again(tmp_path, SMALL)
    assert not reload(tmp_path).problems
    (record,) = records_in(file)
    flip(file, record[1] + at, 0x40)
    before = file.read_bytes()
    loaded = reload(tmp_path)
    assert record[4] not in ids(loaded)
    assert _told(loaded, file)
    assert any(kept in before and len(kept) > 100 for kept in _kept(tmp_path).values())
    assert not reload(tmp_path).problems


def test_a_file_whose_next_use_has_just_begun_has_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal(tmp_path) as (opened, _):
        for number in range(20):
            opened.append_add(number, 1, bytes(300))
            if number:
                opened.append_delete(number)
        writes: list[tuple[bytes, int]] = []
        states: list[bytes] = []
        file = opened._files.data[0]
        plain = JournalFile.write

        def noted(self: JournalFile, data: bytes, offset: int) -> None:
            plain(self, data, offset)
            if self.name == file.name:
                writes.append((bytes(data), offset))
                states.append(Path(file.path).read_bytes())

        monkeypatch.setattr(JournalFile, "write", noted)
        opened.append_delete(0)
        opened.reclaim()
        monkeypatch.undo()
    assert len(writes) == 1
    for state in states:
        Path(file.path).write_bytes(state)
        assert check_journal(tmp_path) == []
    Path(file.path).write_bytes(states[0])
    loaded = reload(tmp_path)
    assert (loaded.records, loaded.problems) == ([], [])
    assert not _kept(tmp_path)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 63, 64, 87, 88, 100])
@pytest.mark.parametrize("layout", [JournalLayout.NATIVE, JournalLayout.JBM])
def test_a_file_that_was_cut_in_its_header_or_behind_it_is_no_hindrance(
    tmp_path: Path, layout: JournalLayout, size: int
) -> None:
    options = replace(SMALL, layout=layout)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 1, b"body")
    (free,) = [file for file in files(tmp_path) if not records_in(file)][:1]
    os.truncate(free, size)
    assert ids(reload(tmp_path, options)) == [1]
    assert {file.stat().st_size for file in files(tmp_path)} == {FILE_BYTES}
