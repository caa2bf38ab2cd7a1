"""Which files are freed and which stay, and their reuse."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind
from binlog.journal import appender
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.journal import Journal
from binlog.journal.ledger import dead_files
from binlog.journal.options import Sync
from binlog.storage.directory import Directory
from binlog.storage.native import CommitGroup
from tests.support.children import run_script
from tests.support.journals import SMALL, files, header_of, ids, journal, records_in, reload, write_file

# One record to a file.
ONE = bytes(1500)


def test_a_file_with_deletes_outlives_the_deleted_records() -> None:
    directory = Directory(os.curdir)  # no file is accessed
    pairs = list(itertools.permutations(range(3), 2))
    for numbers in itertools.product((0, 1), repeat=3 + len(pairs)):
        made = [JournalFile(directory, "", FileHeader(JournalLayout.JBM, number), 1024) for number in range(3)]
        for file, alive in zip(made, numbers, strict=False):
            file.pin_count = alive
        for (who, whose), ends in zip(pairs, numbers[3:], strict=True):
            if ends:
                made[who].must_outlive.add(made[whose])
        dead = dead_files(made, None)
        for place, file in enumerate(made):
            # Files are freed oldest first, so a later file cannot free this one.
            kept = any(other not in dead or made.index(other) > place for other in file.must_outlive)
            assert (file in dead) == (not file.pin_count and not kept)


def test_a_dead_file_is_reused_with_a_higher_id(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        for number in range(6):
            opened.append_add(number, 1, ONE)
        before = {file.name: header_of(file).file_id for file in files(tmp_path)}
        for number in range(6):
            opened.append_delete(number)
        opened.append_add(100, 1, ONE)
        opened.reclaim()
        after = {file.name: header_of(file).file_id for file in files(tmp_path)}
    assert set(before) <= set(after)
    assert all(after[f"journal-{number}.jnl"] > max(before.values()) for number in range(1, 6))
    assert len(after) >= 2
    assert ids(reload(tmp_path)) == [100]


@pytest.mark.parametrize("layout", [JournalLayout.NATIVE, JournalLayout.JBM])
def test_a_delete_outlives_its_record(tmp_path: Path, layout: JournalLayout) -> None:
    with journal(tmp_path, replace(SMALL, layout=layout)) as (opened, _):
        opened.append_add(1, 1, bytes(300))
        opened.append_add(2, 1, bytes(300))
        opened.append_add(3, 1, ONE)
        opened.append_delete(3)
        opened.append_delete(1)
        opened.append_add(4, 1, ONE)
        opened.append_delete(4)
        opened.append_add(5, 1, ONE)
        assert 1 in {file.header.file_id for file in opened._files.data}
        opened.reclaim()
        opened.append_add(6, 1, ONE)
        opened.reclaim()
    for _ in range(2):
        assert ids(reload(tmp_path)) == [2, 5, 6]


def test_a_live_update_pins_its_record(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, ONE)
        opened.append_update(1, 1, ONE)
        opened.append_add(2, 1, ONE)
        opened.reclaim()
        assert len(opened._files.data) == 2
        opened.append_delete(1)
        opened.append_add(3, 1, ONE)
        opened.reclaim()
        assert [file.header.file_id for file in opened._files.data] == [3]
    assert ids(reload(tmp_path)) == [2, 3]


@pytest.mark.parametrize("commits", [True, False])
def test_the_end_of_a_transaction_outlives_its_records(tmp_path: Path, commits: bool) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"keeps the file")
        opened.append_add_tx(10, 2, 1, b"")
        opened.append_add(3, 1, ONE)
        (opened.commit if commits else opened.rollback)(10)
        opened.append_add(4, 1, ONE)
        opened.append_delete(3)
        opened.append_delete(4)
        opened.append_add(5, 1, ONE)
        opened.reclaim()
    assert ids(reload(tmp_path)) == ([1, 2, 5] if commits else [1, 5])
    with journal(tmp_path) as (opened, _):
        opened.append_delete(1)
        if commits:
            opened.append_delete(2)
        opened.append_add(6, 1, ONE)
        opened.reclaim()
        assert len(opened._files.data) <= 2
    assert ids(reload(tmp_path)) == [5, 6]


def test_a_prepared_transaction_pins_its_files(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add_tx(10, 1, 1, b"waits")
        opened.prepare(10, b"XID")
        for number in range(100, 120):
            opened.append_add(number, 1, ONE, sync=Sync.LATER)
            opened.append_delete(number, sync=Sync.LATER)
        opened.reclaim()
        assert opened._files.data[0].header.file_id == 1
    with journal(tmp_path) as (opened, loaded):
        assert [each.extra for each in loaded.prepared] == [b"XID"]
        opened.commit(10)
        for number in range(120, 125):
            opened.append_add(number, 1, ONE, sync=Sync.LATER)
            opened.append_delete(number, sync=Sync.LATER)
        opened.append_delete(1)
        opened.append_add(200, 1, ONE)
        opened.reclaim()
        assert not any(file.header.file_id == 1 for file in opened._files.data)
    assert ids(reload(tmp_path)) == [200]


def test_deletes_are_durable_before_their_dead_file_is_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    plain, plain_commit = os.fdatasync, appender.commit_at

    def noted(fd: int) -> None:
        plain(fd)
        synced.append(os.fstat(fd).st_ino)

    def noted_commit(group: CommitGroup, fd: int, data: memoryview, offset: int, path: str) -> None:
        plain_commit(group, fd, data, offset, path)
        synced.append(os.fstat(fd).st_ino)

    with journal(tmp_path, replace(SMALL, flush_seconds=3000)) as (opened, _):
        opened.append_add(1, 1, ONE)
        opened.append_add(2, 1, ONE)  # in the next file
        dead, last = (path.stat().st_ino for path in files(tmp_path) if records_in(path))
        monkeypatch.setattr(os, "fdatasync", noted)
        monkeypatch.setattr(appender, "commit_at", noted_commit)
        opened.append_delete(1, sync=Sync.LATER)
        opened._appender._group.by_caller = True  # so that `reclaim` commits by the watched functions
        assert opened.reclaim() == 1
    assert synced.index(last) < synced.index(dead)


@pytest.mark.slow
@pytest.mark.parametrize(("pool", "count"), [(5, 5), (None, 201), (0, 2)])
def test_the_pool_keeps_the_requested_number_of_files(tmp_path: Path, pool: int | None, count: int) -> None:
    options = replace(SMALL, file_bytes=1024, pool_files=pool)
    with journal(tmp_path, options) as (opened, _):
        for number in range(200):
            opened.append_add(number, 1, bytes(800), sync=Sync.LATER)
        for number in range(200):
            opened.append_delete(number, sync=Sync.LATER)
        opened.append_add(1000, 1, bytes(800))
        opened.reclaim()
        assert max(count - 1, options.files_min) <= len(files(tmp_path)) <= count + 7
    assert ids(reload(tmp_path, options)) == [1000]


@pytest.mark.parametrize("pool", [None, 0])
@pytest.mark.parametrize("work", [Journal.reclaim, Journal.compact])
def test_no_id_repeats_after_all_traces_of_its_record_are_gone(
    tmp_path: Path, work: Callable[[Journal], int], pool: int | None
) -> None:
    options = replace(SMALL, pool_files=pool)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 1, b"")
        opened.append_add(1_000_000, 1, b"")
        opened.append_delete(1_000_000)
        for _ in range(60):
            opened.append_update(1, 1, bytes(100))
        opened.append_delete(1)
        opened.append_add(2, 1, b"")
        for _ in range(60):
            opened.append_update(2, 1, bytes(100))
        work(opened)
    assert not any(record[4] == 1_000_000 for file in files(tmp_path) for record in records_in(file))
    for _ in range(2):
        with journal(tmp_path, options) as (opened, loaded):
            assert loaded.id_max == 1_000_000
            assert opened.new_id() == 1_000_001


_LOADED_WITH_LARGER_FILES = """
import contextlib, resource, sys
from binlog.errors import FullError
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, resource.RLIM_INFINITY))  # so that none can be made, as on a full disk
with Journal(sys.argv[1], JournalOptions(file_bytes=4096)) as journal, contextlib.suppress(FullError):
    journal.load()
"""


@pytest.mark.slow
def test_no_id_repeats_if_free_files_of_another_size_are_removed_first(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1_000_000, 1, bytes(500))
        opened.append_delete(1_000_000)
        opened.append_add(2, 1, ONE)  # in the next file, which was created before
        opened.reclaim()
    assert [header_of(file).record_id_max for file in files(tmp_path) if records_in(file)] == [0]
    run_script(_LOADED_WITH_LARGER_FILES, tmp_path).check_returncode()
    options = replace(SMALL, file_bytes=4096)
    for _ in range(2):
        loaded = reload(tmp_path, options)
        assert (ids(loaded), loaded.id_max) == ([2], 1_000_000)
    assert {file.stat().st_size for file in files(tmp_path) if not records_in(file)} == {4096}


def test_a_delete_outlives_an_update_whose_record_is_gone(tmp_path: Path) -> None:
    """The file with the record was freed first; the delete must then outlive the update."""
    kept = [JournalRecord(Kind.UPDATE, 0, 1, 1, b"u"), JournalRecord(Kind.ADD, 0, 5, 1, b"keeps the file")]
    write_file(tmp_path, FileHeader(JournalLayout.NATIVE, 7, b"saltsalt"), kept)
    write_file(tmp_path, FileHeader(JournalLayout.NATIVE, 8, b"SALTSALT"), [JournalRecord(Kind.DELETE, 0, 1)])
    with journal(tmp_path) as (opened, loaded):
        assert (ids(loaded), loaded.problems) == ([5], [])
        for number in range(10, 14):
            opened.append_add(number, 1, ONE)
        opened.reclaim()
    assert ids(reload(tmp_path)) == [5, 10, 11, 12, 13]


@pytest.mark.parametrize("layout", [JournalLayout.JBM, JournalLayout.JBM_2008_07])
def test_old_records_do_not_reappear_between_aligned_ones(tmp_path: Path, layout: JournalLayout) -> None:
    options = replace(SMALL, file_bytes=1024, layout=layout, alignment=64, buffer_bytes=300, compact_files_min=0)
    with journal(tmp_path, options) as (opened, _):
        for number in range(60):
            opened.append_add(number, 1, bytes([number + 1]) * (number * 7 % 90))
            if number:
                opened.append_delete(number - 1)
            if number % 5 == 0:
                opened.reclaim()
    assert check_journal(tmp_path) == []
    assert ids(reload(tmp_path, options)) == [59]
