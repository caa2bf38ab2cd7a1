"""Maintenance that fails for a transient reason: appends continue, and the work is retried."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import AccessError, BinlogError, FullError, PoisonedError
from binlog.format.journal.names import CONTROL_FILE
from binlog.journal.appender import Appender
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from tests.support.children import run_script
from tests.support.descriptors import count_descriptors
from tests.support.failing import FailingCalls
from tests.support.journals import SMALL, files, flip, ids, journal, records_in, reload

_LARGE = bytes(900)  # two to a file
# Those of the maintenance thread, except writes and syncs.
_CALLS = ("pread", "unlink", "link", "stat", "listdir", "mkdir")

# setrlimit(2) limits the size of files, so that later writes fail as on a full disk: no file can be created, but the
# beginnings of existing files can be overwritten.
_ON_A_FULL_DISK = """
import resource, sys
from binlog.errors import FullError
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions, Sync
journal = Journal(sys.argv[1], JournalOptions(file_bytes=2048, compact_files_min=0, pool_files=int(sys.argv[2])))
journal.start()
journal.load()
journal.reclaim()  # a file is ready when that returns
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
for number in map(int, sys.argv[3].split(",")):
    journal.append_delete(number, sync=Sync.LATER)
for _ in range(2):
    try:
        journal.reclaim()
        print("kept", len(journal.file_pins()))
    except FullError:
        print("full")
journal.append_add(100, 1, b"goes on")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.reclaim()
print("kept", len(journal.file_pins()))
journal.append_add(101, 1, bytes(1500))
journal.close()
"""


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """Use a folder in memory: these tests inject failures at each call, and do not test the disk."""
    return in_memory


def _on_a_full_disk(path: Path, pool: int, deletes: list[int]) -> list[str]:
    done = run_script(_ON_A_FULL_DISK, path, pool, ",".join(map(str, deletes)))
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def _four_files(path: Path) -> None:
    with journal(path) as (opened, _):
        for number in range(6):
            opened.append_add(number, 1, _LARGE)
        opened.append_add(6, 1, bytes(300))  # in the fourth file


@pytest.mark.parametrize("pool", [0, 2])
@pytest.mark.slow
def test_freeing_files_takes_no_space(tmp_path: Path, pool: int) -> None:
    """There may be no space, and with fewer files one of them still has to keep the largest id."""
    _four_files(tmp_path)
    assert _on_a_full_disk(tmp_path, pool, [0, 1, 2, 3, 4, 5]) == ["kept 0"] * 3
    loaded = reload(tmp_path)
    assert (ids(loaded), loaded.id_max, check_journal(tmp_path)) == ([6, 100, 101], 101, [])


@pytest.mark.slow
def test_a_damaged_file_waits_for_space_to_be_quarantined(tmp_path: Path) -> None:
    _four_files(tmp_path)
    first = files(tmp_path)[0]
    flip(first, records_in(first)[0][1] + 100)
    damaged = first.read_bytes()
    assert _on_a_full_disk(tmp_path, 2, [1, 2, 3, 4, 5]) == ["full", "full", "kept 0"]
    assert check_journal(tmp_path) == []
    assert [file.read_bytes() for file in (tmp_path / "quarantine").iterdir()] == [damaged]
    assert ids(reload(tmp_path)) == [6, 100, 101]


_LOADED_ON_A_FULL_DISK = """
import resource, sys
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
with Journal(sys.argv[1], JournalOptions(file_bytes=2048, compact_files_min=0, files_min=6)) as journal:
    print(len(journal.load().records))
    for number in range(6):
        journal.append_delete(number)
    print(journal.reclaim())
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for number in range(100, 106):
        journal.append_add(number, 1, bytes(900))
    journal.reclaim()
"""


@pytest.mark.slow
def test_a_journal_on_a_full_disk_is_loaded_and_frees_files(tmp_path: Path) -> None:
    _four_files(tmp_path)
    for file in files(tmp_path):
        if not records_in(file):
            file.unlink()  # as if the process had died before it could create the file
    done = run_script(_LOADED_ON_A_FULL_DISK, tmp_path)
    assert (done.stdout, done.stderr) == ("7\n3\n", "")
    assert len(files(tmp_path)) == 6
    assert (ids(reload(tmp_path)), check_journal(tmp_path)) == ([6, *range(100, 106)], [])


def test_a_compaction_leaves_no_more_files_than_requested(tmp_path: Path) -> None:
    options = replace(SMALL, pool_files=8)
    with journal(tmp_path, options) as (opened, _):
        _fill(opened)
        opened.compact()
        assert len(files(tmp_path)) == 8
    assert ids(reload(tmp_path, options)) == [*range(0, 60, 10), 60]


def _fill(opened: Journal) -> None:
    for number in range(60):
        opened.append_add(number, 1, bytes(400), sync=Sync.LATER)
        if number % 10:
            opened.append_delete(number, sync=Sync.LATER)
    opened.append_add(60, 1, b"last")
    opened.reclaim()


def _delete_and_reclaim(opened: Journal) -> int:
    for number in range(0, 60, 10):
        opened.try_append_delete(number, sync=Sync.LATER)
    return opened.reclaim()


@pytest.mark.slow
def test_after_a_call_that_poisoned_the_journal_everything_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is poisoned before the caller has the error, however long that takes."""
    fail = Appender.fail

    def fails_late(appender: Appender, error: BinlogError) -> None:
        time.sleep(0.02)
        fail(appender, error)

    monkeypatch.setattr(Appender, "fail", fails_late)
    poisoned = 0
    for synced in range(100):
        opened = Journal(tmp_path / str(synced), SMALL)
        opened.start()
        opened.load()
        _fill(opened)
        with monkeypatch.context() as patched:
            left = itertools.count(synced, -1)
            for name in ("fdatasync", "fsync"):
                patched.setattr(os, name, _until(left, getattr(os, name)))
            try:
                opened.compact()
            except PoisonedError:
                poisoned += 1
                with pytest.raises(PoisonedError):
                    opened.append_add(100, 1, b"refused", sync=Sync.LATER)
        if next(left) > 0:
            opened.close()
            break
        with contextlib.suppress(PoisonedError):
            opened.close()
    assert poisoned > 3


def _until(left: Iterator[int], sync: Callable[[int], None]) -> Callable[[int], None]:
    def syncs(fd: int) -> None:
        if next(left) <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    return syncs


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOSPC])
@pytest.mark.parametrize("pool", [None, 6])
@pytest.mark.parametrize("work", [Journal.compact, _delete_and_reclaim])
def test_work_that_cannot_open_or_read_a_file_is_retried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Journal], int], pool: int | None, number: int
) -> None:
    options = replace(SMALL, pool_files=pool)
    struck = 0
    for at in range(1000):
        path = tmp_path / f"{at}"
        with journal(path, options) as (opened, _):
            _fill(opened)
            with monkeypatch.context() as patched:
                failing = FailingCalls(patched, _CALLS, at, number, opened._maintenance.worker.is_own_thread)
                with contextlib.suppress(AccessError, FullError):
                    work(opened)
            opened.append_add(100, 1, b"goes on")
            work(opened)
            assert not (path / CONTROL_FILE).exists()
            opened.append_add(101, 1, b"and on")
            assert count_descriptors() < 100
        loaded = reload(path, options)
        assert loaded.problems == []
        assert ids(loaded) == ([0, 10, 20, 30, 40, 50] if work is Journal.compact else []) + [60, 100, 101], at
        if failing.count <= at:
            break
        struck += 1
    assert struck > 3
