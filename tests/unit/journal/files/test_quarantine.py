"""The quarantine: damaged bytes are moved there completely and once, and replace nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import BinlogError, CorruptError
from binlog.journal.files.quarantine import keep_copy, move_file
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.journal import Journal
from binlog.journal.loading import loading
from binlog.storage.directory import Directory
from tests.support.journals import FILE_BYTES, SMALL, files, ids, journal, records_in, reload

# One write takes less than the bytes after the last record.
_OPTIONS = replace(SMALL, buffer_bytes=100)


def _kept(path: Path) -> dict[str, bytes]:
    folder = path / "quarantine"
    return {file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {}


def _damage_tail(path: Path) -> bytes:
    """Put bytes after the last record, up to the end of the file; return them."""
    with journal(path, _OPTIONS) as (opened, _):
        opened.append_add(1, 1, b"")
    (file,) = [each for each in files(path) if records_in(each)]
    end = records_in(file)[-1][2]
    rest = bytes(range(1, 256)) * 8
    file.write_bytes(file.read_bytes()[:end] + rest[: FILE_BYTES - end])
    return rest[: FILE_BYTES - end]


@pytest.mark.parametrize("left", [64, 70, 88, 88 + 22, 1023])
def test_a_file_of_an_impossible_size_is_reported_and_quarantined(tmp_path: Path, left: int) -> None:
    """Although no record is cut off at the new end, and nothing else shows that there were more."""
    with journal(tmp_path) as (opened, _):
        for number in range(5):
            opened.append_add(number, 1, b"" if number < 1 else bytes(1100))
    (last,) = [file for file in files(tmp_path) for each in records_in(file) if each[4] == 4]
    (first,) = [file for file in files(tmp_path) for each in records_in(file) if each[4] == 0]
    for file in (last, first):
        file.write_bytes(file.read_bytes()[:left])
    reported = {(problem.path, problem.rule) for problem in check_journal(tmp_path)}
    assert {(str(last), "file_bytes"), (str(first), "file_bytes")} <= reported
    cut = {file.read_bytes() for file in (last, first)}
    with journal(tmp_path) as (opened, loaded):
        assert {(problem.path, problem.rule) for problem in loaded.problems} >= reported
        for record_id in ids(loaded):
            opened.append_delete(record_id)
        for number in range(10, 14):
            opened.append_add(number, 1, bytes(1100))
        opened.reclaim()
    assert cut <= set(_kept(tmp_path).values())
    loaded = reload(tmp_path)
    assert (ids(loaded), loaded.problems) == ([10, 11, 12, 13], [])


def test_bytes_after_the_last_record_are_quarantined_once(tmp_path: Path) -> None:
    rest = _damage_tail(tmp_path)
    assert len(rest) > 4 * _OPTIONS.buffer_bytes
    loaded = reload(tmp_path, _OPTIONS)
    assert [problem.rule for problem in loaded.problems] == ["tail"]
    assert list(_kept(tmp_path).values()) == [rest]
    assert not reload(tmp_path, _OPTIONS).problems
    assert list(_kept(tmp_path).values()) == [rest]


def test_a_load_that_fails_later_does_not_quarantine_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_nothing_in_the_quarantine_is_replaced(tmp_path: Path) -> None:
    with Directory(str(tmp_path)) as directory:
        for data in (b"one", b"two", b"one", b"three", b"two"):
            keep_copy(directory, "copy", data)
        for data in (b"first", b"second"):
            (tmp_path / "file").write_bytes(data)
            move_file(directory, "file", "copy")
        (tmp_path / "empty").touch()
        move_file(directory, "empty", "copy")
    assert sorted(_kept(tmp_path).values()) == sorted([b"one", b"two", b"three", b"first", b"second"])
    assert [each.name for each in tmp_path.iterdir()] == ["quarantine"]


def test_the_quarantine_is_durable_before_anything_moves_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut could lose the file: it has left the folder, and the quarantine does not exist."""
    done: list[str] = []
    rename = os.rename

    def noted(*arguments: object, **named: object) -> None:
        done.append("rename")
        rename(*arguments, **named)  # type: ignore[arg-type]

    def sync(directory: Directory, folder: str = "") -> None:
        done.append(os.path.basename(directory.file_path(folder)))

    monkeypatch.setattr(Directory, "sync", sync)
    monkeypatch.setattr(os, "rename", noted)
    (tmp_path / "file").write_bytes(b"x")
    with Directory(str(tmp_path)) as directory:
        move_file(directory, "file", "file")
    assert done == [tmp_path.name, "rename", "quarantine", tmp_path.name]


def test_the_quarantine_is_in_the_journals_folder_after_a_rename(tmp_path: Path) -> None:
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


def test_a_symbolic_link_as_quarantine_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    _damage_tail(path)
    (tmp_path / "elsewhere").mkdir()
    (path / "quarantine").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BinlogError):
        reload(path, _OPTIONS)
    assert not list((tmp_path / "elsewhere").iterdir())
