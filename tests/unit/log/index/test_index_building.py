"""Building an index: every entry is right, and it reaches the tail in the end."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Reader, Writer
from binlog.storage.native import lib
from tests.support.children import Child
from tests.support.indexes import check_entries, index_entries
from tests.support.logs import jpos_file, read_all
from tests.support.namespaces import on_a_small_disk


def test_each_synced_commit_has_an_entry_with_its_time(log: Path) -> None:
    times = [time.time_ns()]
    with Writer(log) as writer:
        for number in range(5):
            writer.append(b"%d" % number)
            times.append(time.time_ns())
    assert check_entries(log) == 0
    entries = index_entries(log)
    assert [entry.sequence for entry in entries] == [0, 1, 2, 3, 4]
    for before, entry, after in zip(times, entries, times[1:], strict=False):
        assert before <= entry.time_ns <= after


def test_a_range_has_64_kib_at_most_but_for_a_record_that_alone_is_larger(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([bytes(1000)] * 300)
        writer.append_many([b"small", bytes(100_000), b"small", bytes(70_000), bytes(70_000), b"small"])
        writer.append(bytes(3 << 20))
        assert check_entries(log) == 0
        assert max(entry.size for entry in index_entries(log)) == (3 << 20) + 4
        assert len(index_entries(log)) == 5 + 6 + 1


def test_without_a_sync_an_entry_is_added_every_64_kib(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(2000):
            writer.append(bytes(number % 500), mode=Mode.FLUSH)
        behind = check_entries(log)
        assert 0 < behind <= 65536
        assert all(entry.size > 65536 - 504 for entry in index_entries(log))
        writer.sync()
        assert check_entries(log) == 0


@pytest.mark.slow
def test_without_a_sync_an_entry_is_added_with_the_first_append_after_a_second(log: Path) -> None:
    with Writer(log, background=binlog.Background(sync_seconds=1000)) as writer:
        writer.append(b"first", mode=Mode.FLUSH)
        began = time.monotonic()
        while not index_entries(log):
            writer.append(b"more", mode=Mode.FLUSH)  # far less than 64 KiB in a second
            time.sleep(0.001)
            assert time.monotonic() - began < 60
        assert time.monotonic() - began > 0.9


@pytest.mark.slow
def test_records_of_all_modes_are_covered_when_the_writer_closes(log: Path) -> None:
    dice = random.Random(1)
    with Writer(log) as writer:
        for number in range(3000):
            mode = dice.choice([Mode.FLUSH] * 8 + [Mode.STAGE] * 8 + [Mode.SYNC])
            if dice.random() < 0.02:
                writer.append_many([bytes(dice.randrange(3000))] * dice.randrange(200), mode=mode)
            else:
                writer.append(b"%d" % number * dice.randrange(40), mode=mode)
            if dice.random() < 0.002:
                writer.cutover()
    for number in range(1, len(binlog.stat(log).files) + 1):
        assert check_entries(log, number) == 0


@pytest.mark.slow
def test_alternating_writers_fill_the_gaps_between_their_own_records(log: Path) -> None:
    """Each remembers where its own records began, and another may have written the entries meanwhile."""
    dice = random.Random(2)
    with Writer(log) as first, Writer(log) as second, Writer(log) as third:
        for _ in range(4000):
            writer = dice.choice([first, second, second, third])
            writer.append(bytes(dice.randrange(300)), mode=Mode.SYNC if dice.random() < 0.02 else Mode.FLUSH)
            if dice.random() < 0.005:
                writer.append_many([bytes(dice.randrange(300))] * dice.randrange(400), mode=Mode.FLUSH)
        assert check_entries(log) <= 3 * 65536
        first.append(b"the last", mode=Mode.FLUSH)
        first.sync()
        assert check_entries(log) == 0


@pytest.mark.slow
def test_alternating_processes_and_a_fork(log: Path) -> None:
    def append(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(500):
            writer.append(bytes(dice.randrange(600)), mode=Mode.SYNC if dice.random() < 0.05 else Mode.FLUSH)

    with Writer(log) as writer:
        writer.append(b"first", mode=Mode.FLUSH)
        children = [Child(append, seed) for seed in range(3)]
        append(3)
        for child in children:
            child.join()
        # A child's last entries died with it; they are made from the file.
        writer.append(b"last", mode=Mode.FLUSH)
        writer.sync()
        assert check_entries(log) == 0
    assert binlog.stat(log).files[0].record_count == 2002


@pytest.mark.slow
def test_records_that_a_killed_writer_only_remembered_get_entries_by_the_next(log: Path) -> None:
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        writer = Writer(log)
        for _ in range(300):
            writer.append(bytes(1000), mode=Mode.FLUSH)
        os.write(tell, b"x")
        signal.pause()
    os.read(ready, 1)
    assert check_entries(log) > 0
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(ready)
    os.close(tell)
    with Writer(log):
        assert check_entries(log) == 0


@pytest.mark.parametrize("size", [0, 20, 32, 50, 32 + 64 + 7])
def test_an_index_cut_anywhere_is_brought_up_to_date(log: Path, size: int) -> None:
    with Writer(log) as writer:
        for number in range(5):
            writer.append(b"%d" % number)
    os.truncate(log / "00000001.idx", size)
    assert binlog.check(log) == []
    with Writer(log) as writer:
        assert check_entries(log) == 0
        writer.append(b"more")
    assert check_entries(log) == 0


def test_an_index_cut_while_a_writer_has_it_open_is_completed(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(10):
            writer.append(b"%d" % number)
        writer.sync()
        os.truncate(log / "00000001.idx", 32 + 3 * 40 + 5)
        writer.append(b"more")
        writer.sync()
        assert check_entries(log) == 0


def test_a_removed_index_is_rebuilt(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"first")
        (log / "00000001.idx").unlink()
        writer.append(b"second")
        writer.cutover()
        writer.append(b"third")
        (log / "00000002.idx").unlink()
    with Writer(log):
        assert check_entries(log, 2) == 0
    assert binlog.check(log) == []


def test_an_index_that_lags_far_is_completed_by_the_cutover(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"first")
        writer.sync()
        size = (log / "00000001.idx").stat().st_size
        for _ in range(3):
            writer.append_many([bytes(1000)] * 1000)
        os.truncate(log / "00000001.idx", size)
        writer.append(b"more")
        assert check_entries(log) > lib.BINLOG_INDEX_GAP_BYTES
        writer.cutover()
        assert check_entries(log) == 0


def test_entries_after_the_tail_are_cut_before_others_replace_them(log: Path) -> None:
    """As after a power cut that the index survived, and unsynced records did not."""
    with Writer(log) as writer:
        writer.append(b"first")
    shutil.copytree(log, log.with_name("before"))
    with Writer(log) as writer:
        for _ in range(10):
            writer.append(b"lost", mode=Mode.FLUSH)
    shutil.copy(log.with_name("before") / "00000001.dat", log / "00000001.dat")
    assert binlog.check(log) == []
    with Writer(log) as writer:
        for number in range(30):
            writer.append(b"%d" % number, mode=Mode.FLUSH)
    assert check_entries(log) == 0


def test_the_index_of_another_log_is_replaced_and_a_file_of_another_kind_is_not(log: Path, tmp_path: Path) -> None:
    for name in ("log", "other"):
        with Writer(tmp_path / name) as writer:
            writer.append(name.encode())
    shutil.copy(tmp_path / "other" / "00000001.idx", log / "00000001.idx")
    assert [problem.rule for problem in binlog.check(log)] == ["index"]
    with Writer(log) as writer:
        writer.append(b"more")
    assert check_entries(log) == 0
    (log / "00000001.idx").write_bytes(b"somebody's notes, which are not ours to remove")
    with Writer(log) as writer:
        writer.append(b"more")
    assert (log / "00000001.idx").read_bytes().startswith(b"somebody's notes")
    assert [problem.rule for problem in binlog.check(log)] == ["index"]
    (log / "00000001.idx").unlink()


def test_the_index_has_the_files_permissions(log: Path) -> None:
    with Writer(log, permissions=0o604) as writer:
        writer.append(b"record")
    assert (log / "00000001.idx").stat().st_mode & 0o7777 == 0o604


def test_a_log_without_permission_for_an_index_takes_appends(log: Path) -> None:
    log.mkdir()
    (log / "00000001.idx").mkdir()
    with Writer(log) as writer:
        writer.append(b"record")
    assert read_all(log) == [b"record"]
    (log / "00000001.idx").rmdir()


def _full_index(disk: Path) -> None:
    """Only the index is on a full disk: a file bound over it."""
    log, small = disk / "log", disk / "small"
    small.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(b"tmpfs", os.fsencode(small), b"tmpfs", 0, b"size=8k") == 0
    with Writer(log) as writer:
        writer.append(b"first")
    shutil.copy(log / "00000001.idx", small / "index")
    assert libc.mount(os.fsencode(small / "index"), os.fsencode(log / "00000001.idx"), None, 4096, None) == 0
    with Writer(log) as writer:
        for number in range(600):
            assert writer.append(b"%d" % number).offset
        assert (small / "index").stat().st_size <= 8192
        assert check_entries(log) > 0
    assert len(list(Reader(log))) == 601
    assert binlog.check(log) == []
    assert libc.umount2(os.fsencode(log / "00000001.idx"), 2) == 0
    with Writer(log):
        assert check_entries(log) == 0


def test_a_full_disk_under_the_index_alone_fails_no_append(tmp_path: Path) -> None:
    on_a_small_disk(tmp_path, lambda: _full_index(tmp_path))


def test_another_programs_file_gets_no_index_from_its_writers(log: Path) -> None:
    log.mkdir()
    jpos_file(log, [b"one", b"two"])
    with Writer(log) as writer:
        writer.append(b"three")
    assert not (log / "00000001.idx").exists()


def test_entries_of_synced_commits_are_written_together_and_never_late(log: Path) -> None:
    """Up to 32 entries, those of 64 KiB, or of a second; with a sync, a cutover or the close all that are kept."""
    with Writer(log) as writer, Writer(log) as other:
        for number in range(100):
            writer.append(b"%d" % number)
        assert len(index_entries(log)) == 99
        other.append(b"another")
        writer.append(b"between")
        other.append(b"another")
        assert check_entries(log) < 1000
        other.sync()
        assert check_entries(log) == 0
        for _ in range(10):
            writer.append(bytes(10_000))
        assert check_entries(log) <= 65536
        writer.cutover()
        assert check_entries(log) == 0
        writer.append(b"before the close")
    assert check_entries(log, 2) == 0
