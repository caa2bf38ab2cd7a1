"""Compaction with damaged files, files of other sizes, and many bodies."""

from __future__ import annotations

import resource
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import AccessError, FullError
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.names import COMPACTED_END, CONTROL_FILE
from binlog.format.journal.record import Kind
from binlog.journal.compaction import compactor as compaction
from binlog.journal.compaction.control_file import FileMoves, write_control
from binlog.journal.compaction.live_records import find_live_records
from binlog.journal.compaction.plan import compaction_groups
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions, Sync
from binlog.storage.directory import Directory
from tests.support.journal_bytes import Scanned
from tests.support.journals import LAYOUTS, SMALL, files, flip, ids, journal, records_in, reload


def _fill(opened: Journal, count: int = 60, size: int = 300, alive: int = 5) -> None:
    """Append records, and delete all but one in `alive`."""
    for number in range(count):
        opened.append_add(number, 1, bytes([number % 251]) * size, sync=Sync.LATER)
        if number % alive:
            opened.append_delete(number, sync=Sync.LATER)
    opened.append_add(count, 1, b"last")


def _alive_in(path: Path, record_id: int) -> tuple[Path, Scanned]:
    """Find the file and the location of a record."""
    for file in files(path):
        for each in records_in(file):
            if each[0] == Kind.ADD and each[4] == record_id:
                return file, each
    raise AssertionError(record_id)


@pytest.mark.parametrize("what", ["body", "kind", "check", "delete"])
def test_a_file_damaged_during_a_compaction_stays_and_is_reported(tmp_path: Path, what: str) -> None:
    with journal(tmp_path) as (opened, _):
        _fill(opened)
        opened.append_add(100, 1, b"")  # so that a complete file has all earlier records
        file, record = _alive_in(tmp_path, 20)
        if what == "delete":  # whose record reappears
            record = next(each for each in records_in(file) if each[0] == Kind.DELETE)
        _, at, end, *_ = record
        flip(file, {"body": at + 50, "kind": at, "check": end - 1, "delete": at}[what], 0x40)
        before = file.read_bytes()
        assert opened.compact() > 0
        assert file.read_bytes() == before
        assert {problem.path for problem in opened.problems()} == {str(file)}
        opened.append_add(101, 1, b"after")
    loaded = reload(tmp_path)
    missing = set() if what == "delete" else {20}
    assert set(ids(loaded)) >= {0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 100, 101} - missing
    assert [problem.path for problem in loaded.problems] == [str(file)]
    kept = [file] if file.exists() else list((tmp_path / "quarantine").iterdir())
    assert [each.read_bytes() for each in kept] == [before]


def test_a_compaction_without_space_for_its_control_file_does_nothing_and_appends_continue(tmp_path: Path) -> None:
    unfinished = tmp_path / f"{CONTROL_FILE}.tmp"
    with journal(tmp_path) as (opened, _):
        _fill(opened)
        before = files(tmp_path)
        unfinished.mkdir()  # so that the control file can be neither created nor removed
        with pytest.raises(AccessError):
            opened.compact()
        assert set(files(tmp_path)) >= set(before)
        assert not list(tmp_path.glob(f"*{COMPACTED_END}"))
        opened.append_add(100, 1, b"after")
        unfinished.rmdir()
        assert opened.compact() > 0
    assert set(ids(reload(tmp_path))) == {*range(0, 60, 5), 60, 100}


def test_a_control_file_without_space_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited(directory: Directory, moves: FileMoves) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
        try:
            write_control(directory, moves)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    monkeypatch.setattr(compaction, "write_control", limited)
    with journal(tmp_path) as (opened, _):
        _fill(opened)
        with pytest.raises(FullError):
            opened.compact()
        assert not [*tmp_path.glob(f"{CONTROL_FILE}*"), *tmp_path.glob(f"*{COMPACTED_END}")]
        opened.append_add(100, 1, b"after")
    assert set(ids(reload(tmp_path))) == {*range(0, 60, 5), 60, 100}


def test_a_record_damaged_after_the_scan_is_not_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal(tmp_path) as (opened, _):
        _fill(opened)
        file, record = _alive_in(tmp_path, 20)

        def late(*arguments: object) -> object:
            runs = compaction_groups(*arguments)  # type: ignore[arg-type]
            flip(file, record[1] + 50)
            return runs

        monkeypatch.setattr(compaction, "compaction_groups", late)
        opened.compact()
        assert [(problem.path, problem.offset) for problem in opened.problems()] == [(str(file), record[1])]
        assert not list(tmp_path.glob("*.cmp"))
        monkeypatch.setattr(compaction, "compaction_groups", compaction_groups)
        opened.compact()  # compacts all other files
        assert len(opened.problems()) == 1
    loaded = reload(tmp_path)
    assert set(ids(loaded)) == {0, 5, 10, 15, 25, 30, 35, 40, 45, 50, 55, 60}
    assert [problem.path for problem in loaded.problems] == [str(file)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("before", "after"), [(8192, 1024), (1024, 8192), (4096, 2048)])
def test_a_journal_continues_with_files_of_another_size(
    tmp_path: Path, layout: JournalLayout, before: int, after: int
) -> None:
    """Even if a record of the old files does not fit in a new file."""
    old = replace(SMALL, layout=layout, file_bytes=before)
    with journal(tmp_path, old) as (opened, _):
        _fill(opened)
        opened.append_add(-1, 1, bytes(before - 200))
        _fill_more(opened, 1000)
    expected = reload(tmp_path, old).records
    new = replace(SMALL, layout=layout, file_bytes=after)
    with journal(tmp_path, new) as (opened, loaded):
        assert loaded.records == expected
        opened.append_add(-2, 1, bytes(after - 200))
        opened.compact()
        _fill_more(opened, 2000)
        opened.reclaim()
        opened.compact()
        opened.append_add(-3, 1, bytes(after - 200))
        # Whether a file is prepared already is up to the maintenance thread.
        assert {each.file_bytes for each in (opened._files.ahead, *opened._files.free) if each is not None} <= {after}
    loaded = reload(tmp_path, new)
    assert [record for record in loaded.records if record in expected] == expected
    assert {record.record_id for record in loaded.records} >= {-1, -2, -3}
    assert (loaded.problems, loaded.failed) == ([], [])
    assert reload(tmp_path, old).records == loaded.records


def _fill_more(opened: Journal, first: int) -> None:
    for number in range(first, first + 30):
        opened.append_add(number, 1, bytes(300), sync=Sync.LATER)
        opened.append_delete(number, sync=Sync.LATER)
    opened.append_add(first, 1, b"")


@pytest.mark.slow
def test_files_that_cannot_be_compacted_do_not_restart_compactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction reads all files, so it must not run again for each few new ones."""
    begun = 0
    plain = find_live_records

    def counted(*arguments: object) -> object:
        nonlocal begun
        begun += 1
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compaction, "find_live_records", counted)
    options = replace(SMALL, compact_files_min=10)
    with journal(tmp_path, options) as (opened, _):
        for number in range(40):
            opened.append_add_tx(1, 1000 + number, 1, bytes(1500), sync=Sync.LATER)
        opened.prepare(1)
        _fill_and_reclaim(opened, range(100))
        assert 3 <= begun <= 14
        assert len(opened._files.data) < 75
        opened.rollback(1)
        opened.reclaim()
        assert len(opened._files.data) < 35
        _fill_and_reclaim(opened, range(100, 140))
        assert begun <= 20
        assert len(opened._files.data) < 20
    assert ids(reload(tmp_path, options)) == list(range(140))


def _fill_and_reclaim(opened: Journal, numbers: range) -> None:
    """Fill one mostly dead file after another, each checked by the maintenance thread."""
    for number in numbers:
        opened.append_add(number, 1, b"stays", sync=Sync.LATER)
        opened.append_add(10_000, 1, bytes(1700), sync=Sync.LATER)
        opened.append_delete(10_000, sync=Sync.LATER)
        opened.reclaim()


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_bodies_are_not_all_in_memory_at_once(tmp_path: Path) -> None:
    options = JournalOptions(file_bytes=1 << 16, compact_files_min=0)
    with journal(tmp_path, options) as (opened, _):
        _fill(opened, count=2000, size=4000, alive=3)
        assert sum(file.live_bytes for file in opened._files.data) > 2_500_000
        gone: list[int] = []
        assert _peak(lambda: gone.append(opened.compact())) < 1_500_000
        assert gone[0] > 50
    assert len(reload(tmp_path, options).records) == 668
