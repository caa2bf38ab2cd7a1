"""Listing a journal's folder: which files count, even while an owner changes them."""

from __future__ import annotations

import itertools
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog.errors import GoneError
from binlog.format.checksums import crc32c
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.names import COMPACTED_END, CONTROL_FILE, JournalNames
from binlog.format.journal.record import JournalRecord, Kind
from binlog.journal.compaction.control_file import FileMoves, commit_control, header_crc, write_control
from binlog.journal.files.listing import FolderView, Listing, read_use, view_folder
from binlog.storage.directory import Directory
from tests.support.journals import LAYOUTS, SMALL, files, flip, header_of, journal, reload, write_file


def seen(path: Path) -> FolderView:
    before = {each: each.stat().st_mtime_ns for each in path.iterdir()}
    found = view_folder(path, JournalNames())
    assert {each: each.stat().st_mtime_ns for each in path.iterdir()} == before
    return found


def rules(path: Path) -> list[str]:
    return [problem.rule for problem in seen(path).problems]


def header(file_id: int, layout: JournalLayout) -> FileHeader:
    return FileHeader(layout, file_id, os.urandom(8) if layout is JournalLayout.NATIVE else b"")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_are_listed_in_the_order_of_their_ids_beside_an_owner(tmp_path: Path, layout: JournalLayout) -> None:
    with journal(tmp_path, replace(SMALL, layout=layout)) as (opened, _):
        for number in range(12):
            opened.append_add(number, 1, bytes(900))
        for number in range(8):
            opened.append_delete(number)
        opened.reclaim()
        found = seen(tmp_path)
        assert found.layout is layout
        assert [file.path for file in found.files] == list(map(str, files(tmp_path)))
        assert [read_use(file) for file in found.files] == [file.read_bytes() for file in files(tmp_path)]
        assert not found.problems


@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_use_of_a_listed_file_is_detected(tmp_path: Path, layout: JournalLayout) -> None:
    write_file(tmp_path, header(1, layout), [JournalRecord(Kind.ADD, 0, 1, 7, b"old")])
    (file,) = seen(tmp_path).files
    assert read_use(file)
    write_file(tmp_path, header(1, layout)._replace(file_id=9), [])
    (tmp_path / "journal-9.jnl").rename(tmp_path / "journal-1.jnl")
    with pytest.raises(GoneError, match="reused or replaced"):
        read_use(file)
    (tmp_path / "journal-1.jnl").unlink()
    with pytest.raises(GoneError, match="was removed"):
        read_use(file)


@pytest.mark.parametrize("renamed", [False, True], ids=["before", "after"])
def test_the_control_file_of_an_interrupted_compaction_decides_which_files_count(tmp_path: Path, renamed: bool) -> None:
    layout = JournalLayout.NATIVE
    for file_id in (1, 2, 3):
        write_file(tmp_path, header(file_id, layout), [JournalRecord(Kind.ADD, 0, file_id, 7, b"old")])
    replaced = tuple((name, header_crc(header_of(tmp_path / name))) for name in ("journal-1.jnl", "journal-2.jnl"))
    new = write_file(tmp_path / "new", header(1, layout), [JournalRecord(Kind.ADD, 0, 2, 7, b"new")])
    data = new.read_bytes()
    old = tmp_path / new.name
    shutil.move(new, old if renamed else tmp_path / (new.name + COMPACTED_END))
    moves = FileMoves(((old.name, crc32c(data)),), (("journal-2.jnl", 2),), replaced)
    shutil.rmtree(tmp_path / "new")
    with Directory(str(tmp_path)) as directory:
        write_control(directory, moves)
        commit_control(directory)
    found = seen(tmp_path)
    assert [file.header.file_id for file in found.files] == [1, 3]
    assert read_use(found.files[0]) == data
    assert not found.problems
    # A damaged control file has no effect, and is reported.
    control = tmp_path / CONTROL_FILE
    whole = control.read_bytes()
    control.write_bytes(whole[:-1])
    assert [file.header.file_id for file in seen(tmp_path).files] == [1, 2, 3]
    assert rules(tmp_path) == ["control"]
    control.write_bytes(whole)
    # A control file that was being written does not have its name yet.
    control.rename(tmp_path / f"{CONTROL_FILE}.tmp")
    assert [file.header.file_id for file in seen(tmp_path).files] == [1, 2, 3]
    assert rules(tmp_path) == []
    (tmp_path / f"{CONTROL_FILE}.tmp").rename(control)
    flip(control, len(whole) - 10)
    assert rules(tmp_path) == ["control"]
    control.write_bytes(whole)
    (tmp_path / found.files[0].name).unlink()
    old.unlink(missing_ok=True)
    assert rules(tmp_path) == ["compaction"]


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(range(5), 2)))
def test_no_use_is_missing_before_another_while_the_dead_files_of_a_compaction_are_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    """first, second: how many files were listed when the owner frees the first and the second dead file."""
    layout = JournalLayout.NATIVE
    paths = [write_file(tmp_path, header(file_id, layout), []) for file_id in (1, 2, 3, 4)]
    crcs = [header_crc(header_of(path)) for path in paths[:3]]
    moves = FileMoves(
        ((paths[0].name, crc32c(paths[0].read_bytes())),),
        ((paths[1].name, 2), (paths[2].name, 3)),
        tuple(zip((path.name for path in paths), crcs, strict=False)),
    )
    with Directory(str(tmp_path)) as directory:
        write_control(directory, moves)
        commit_control(directory)
    listed = itertools.count()
    add = Listing.add

    def add_beside_owner(*args: Any) -> None:
        number = next(listed)
        for freed_at, path, file_id in ((first, paths[1], 5), (second, paths[2], 6)):
            if freed_at == number:
                with path.open("r+b") as file:
                    file.write(header(file_id, layout).pack())
        add(*args)

    monkeypatch.setattr(Listing, "add", add_beside_owner)
    found = view_folder(tmp_path, JournalNames())
    assert not found.problems
    ids = [file.header.file_id for file in found.files]
    assert ids == [1, 4, 5, 6][: len(ids)]


def test_problems_of_headers_and_names_are_reported_and_other_files_are_listed(tmp_path: Path) -> None:
    reload(tmp_path, replace(SMALL, files_min=6))
    live = files(tmp_path)
    (tmp_path / "journal-70.jnl").write_bytes(b"BIN")
    flip(live[0], 20)
    shutil.copy(live[1], tmp_path / "journal-2000.jnl")
    (tmp_path / "journal-90.jnl").write_bytes(header(90, JournalLayout.JBM).pack() + bytes(2044))
    assert header_of(live[1]).file_id == 2
    assert sorted(rules(tmp_path)) == ["file_id", "header_crc", "layout", "name", "short"]
    assert [file.name for file in seen(tmp_path).files] == [file.name for file in (live[1], *live[2:])]
