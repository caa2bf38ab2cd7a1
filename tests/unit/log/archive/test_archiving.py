"""Archiving: which files become archives, when, and beside which other processes."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import struct
import time
from pathlib import Path

import pytest

import binlog
from binlog import RangeReader, Reader, Ref, Start, TimedBatch, Writer
from binlog.errors import AccessError, BusyError, CorruptError, FullError, GoneError
from binlog.log.archive import archive_building as archive_writing
from binlog.log.directory import LogDirectory
from binlog.log.files import closed_files
from binlog.log.read.position import KEEP_SECONDS
from binlog.storage.files import DiskFile
from binlog.storage.locking.directory_lock import hold_lock_file
from tests.support.archives import archive_path, archived, fill, names, small_frames, unpacked
from tests.support.children import Child
from tests.support.logs import jpos_file, read_all

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    small_frames(monkeypatch)


def test_only_the_files_asked_for_become_archives(log: Path) -> None:
    fill(log, files=4)
    told = binlog.archive(log, keep_last=2, dry_run=True)
    assert [(each.number, each.name, each.archive_bytes) for each in told] == [
        (1, "00000001.dat.zst", None),
        (2, "00000002.dat.zst", None),
    ]
    assert archived(log, keep_seconds=3600) == []
    assert archived(log, keep_last=2) == [1, 2]
    assert archived(log, keep_last=2) == []
    assert archived(log, keep_seconds=0) == [3, 4]


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep_last": -1},
        {"keep_seconds": -1},
        {"keep_seconds": float("nan")},
        {"level": 0},
        {"level": 20},
    ],
)
def test_what_cannot_be_meant_is_refused(log: Path, wrong: dict[str, object]) -> None:
    fill(log, files=1)
    with pytest.raises((TypeError, ValueError), match=r"keep|level"):
        binlog.archive(log, **wrong)  # type: ignore[arg-type]
    assert not archive_path(log).exists()


def test_writers_continue_beside_archives(log: Path) -> None:
    with Writer(log) as idle, Reader(log) as reading, Reader(log, Start.END) as following:
        idle.append(b"1")
        expected = [b"1", *fill(log, files=2)]
        assert next(reading).data == b"1"
        assert archived(log) == [1, 2]
        # One has the removed file open, one is at its end.
        assert [entry.data for entry in reading] == expected[1:]
        assert [entry.data for entry in following] == expected
        assert idle.append(b"idle") == Ref(3, 256 + 8)
        with Writer(log) as writer:
            writer.append(b"new")
            assert writer.cutover() == 4
        assert archived(log) == [3]
        idle.append(b"after")
        with Writer(log) as writer:
            writer.append(b"last")
        expected += [b"idle", b"new", b"after", b"last"]
        assert [entry.data for entry in following] == expected[-4:]
    assert read_all(log) == expected


def test_a_missing_file_after_an_archive_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "log"
    fill(log, files=1)
    archived(log)
    (log / "00000002.dat").unlink()
    with pytest.raises(CorruptError, match="missing-next"):
        Writer(log)
    with Reader(log) as reader, pytest.raises(CorruptError, match="missing-next"):
        list(reader)
    assert [problem.rule for problem in binlog.check(log)] == ["missing-next"]


def test_if_file_and_archive_exist_the_file_counts_and_the_next_call_finishes(log: Path) -> None:
    expected = fill(log)
    raw = (log / "00000001.dat").read_bytes()
    archived(log)
    (log / "00000001.dat").write_bytes(raw)
    assert not binlog.stat(log).files[0].archived
    made = archive_path(log).stat()
    assert archived(log) == [1]
    assert archive_path(log).stat().st_ino == made.st_ino
    assert read_all(log) == expected


def test_a_wrong_file_under_the_archives_name_stays_and_so_does_the_log_file(log: Path) -> None:
    fill(log)
    other = b"somebody's own"
    archive_path(log).write_bytes(other)
    first, *rest = binlog.archive(log)
    assert first.problem is not None
    assert "00000001.dat.zst" in first.problem
    assert [each.problem for each in rest] == [None, None]
    assert archive_path(log).read_bytes() == other
    archive_path(log).write_bytes(archive_path(log, 2).read_bytes())
    [first] = binlog.archive(log)
    assert first.problem is not None
    assert (log / "00000001.dat").exists()
    archive_path(log).unlink()
    assert archived(log) == [1]


def test_a_damaged_file_stays_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    fill(log)
    data = bytearray((log / "00000002.dat").read_bytes())
    data[3000] ^= 1
    (log / "00000002.dat").write_bytes(data)
    done = binlog.archive(log)
    assert [each.problem is None for each in done] == [True, False, True]
    assert "not those that were written" in str(done[1].problem)
    assert (log / "00000002.dat").read_bytes() == data
    assert not list(log.glob("*.new"))
    assert not archive_path(log, 2).exists()
    binlog.repair(log)
    assert archived(log) == [2]


@pytest.mark.parametrize("how", ["gone", "cut", "another's"])
def test_an_index_is_completed_before_archiving(log: Path, how: str) -> None:
    expected = fill(log, files=1)
    path = log / "00000001.idx"
    if how == "gone":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-80] if how == "cut" else data[:16] + bytes(16) + data[32:])
    archived(log)
    assert read_all(log) == expected
    last = index_entries_of_archive(path)[-1]
    assert last[1] + last[3] == binlog.stat(log).files[0].tail


def index_entries_of_archive(path: Path) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack(">QQQIIII", path.read_bytes()[32:]))


def test_a_file_whose_index_cannot_be_completed_stays(log: Path) -> None:
    fill(log, files=1)
    (log / "00000001.idx").write_bytes(b"somebody's own, and long enough to be one of ours")
    [left] = binlog.archive(log)
    assert "index cannot be completed" in str(left.problem)
    assert (log / "00000001.dat").exists()
    (log / "00000001.idx").unlink()


def test_an_index_that_cannot_be_cut_is_an_error_of_ours_and_the_file_stays(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, files=2)
    os.truncate(log / "00000001.idx", (log / "00000001.idx").stat().st_size - 4)  # its last entry is torn

    def fails(fd: int, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", fails)
        with pytest.raises(AccessError, match=r"00000001\.idx: Input/output error"):
            binlog.archive(log, keep_seconds=0)
    assert names(log)[0] == "00000001.dat"
    assert archived(log, keep_seconds=0) == [1, 2]


def test_a_file_that_changed_meanwhile_stays(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is appended after the close moves the tail."""
    fill(log, files=1)
    path = log / "00000001.dat"
    before = path.read_bytes()
    verify = archive_writing.verify_archive

    def and_change(*args: object, **options: object) -> int:
        found = verify(*args, **options)  # type: ignore[arg-type]
        data = bytearray(path.read_bytes())
        data[8:16] = struct.pack(">Q", len(data) + 8)
        path.write_bytes(data + struct.pack(">I", 4) + b"late")
        return found

    monkeypatch.setattr("binlog.log.archive.archive_building.verify_archive", and_change)
    [left] = binlog.archive(log)
    assert "changed while it was archived" in str(left.problem)
    assert path.exists()
    assert not list(log.glob("*.zst"))
    path.write_bytes(before)


def test_an_archive_that_reads_back_differently_removes_no_file(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary of the comparison."""
    fill(log, files=1)
    write = archive_writing.write_archive

    def and_spoil(unfinished: DiskFile, *args: object, **options: object) -> None:
        write(unfinished, *args, **options)  # type: ignore[arg-type]
        unfinished.write(bytes([os.pread(unfinished.content, 1, 400)[0] ^ 1]), 400)

    monkeypatch.setattr("binlog.log.archive.archive_building.write_archive", and_spoil)
    [left] = binlog.archive(log)
    assert left.problem is not None
    assert names(log) == ["00000001.dat", "00000001.idx", "00000002.dat", "00000002.idx"]


def test_a_locked_file_stays(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, files=2)
    monkeypatch.setattr("binlog.log.archive.archive._LOCK_SECONDS", 0.01)
    with open(log / "00000001.dat", "rb+") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        done = binlog.archive(log)
    assert ["locked" in str(each.problem) for each in done] == [True, False]
    assert archived(log) == [1]


def test_two_archiving_processes_and_a_repair_exclude_each_other(log: Path) -> None:
    fill(log, files=1)

    def refused() -> None:
        for attempt in (binlog.archive, binlog.repair):
            with pytest.raises(BusyError):
                attempt(log)

    with LogDirectory(log) as directory, hold_lock_file(directory, ".repair.lock", "is a test"):
        Child(refused).join()
    assert archived(log) == [1]


def test_a_full_disk_leaves_the_file(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, files=1)

    def full(*_: object) -> None:
        raise FullError("no space")

    monkeypatch.setattr(DiskFile, "write", full)
    with pytest.raises(FullError):
        binlog.archive(log)
    assert names(log) == ["00000001.dat", "00000001.idx", "00000002.dat", "00000002.idx"]
    assert not list(log.glob(".*.new"))


def test_an_unfinished_archive_of_a_dead_process_is_removed(log: Path) -> None:
    fill(log, files=1)
    (log / ".00000001.dat.zst.new").write_bytes(b"half")
    assert binlog.stat(log).new_bytes > 0
    assert archived(log) == [1]
    assert not list(log.glob(".*.new"))


def test_an_archive_has_the_permissions_of_its_file(log: Path) -> None:
    with Writer(log, permissions=0o600) as writer:
        writer.append(b"1")
        writer.cutover()
    archived(log)
    assert stat.S_IMODE(archive_path(log).stat().st_mode) == 0o600


def test_an_empty_file_can_be_an_archive(log: Path) -> None:
    with Writer(log) as writer:
        writer.cutover()
        writer.append(b"1")
    assert archived(log) == [1]
    assert read_all(log) == [b"1"]


def test_prune_removes_archives_oldest_first(log: Path) -> None:
    fill(log, files=3)
    archived(log, keep_last=1)
    tails = [file.tail for file in binlog.stat(log).files]
    kept = tails[3] + tails[2]
    assert [each.names[0] for each in binlog.prune(log, keep_bytes=kept)] == ["00000001.dat.zst", "00000002.dat.zst"]
    assert names(log) == ["00000003.dat", "00000003.idx", "00000004.dat", "00000004.idx"]
    with pytest.raises(GoneError):
        Reader(log, Ref(2, 256))


@pytest.mark.parametrize("how", ["gone", "cut", "blank", "wrong"])
def test_repair_rebuilds_an_archives_index_and_leaves_the_rest(log: Path, how: str) -> None:
    expected = fill(log)
    archived(log, keep_last=1)
    assert binlog.repair(log) == []
    path, packed = log / "00000001.idx", archive_path(log).read_bytes()
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": data[:-80], "blank": bytes(len(data)), "wrong": data[:72] + b"!" + data[73:]}[how])
    for dry_run in (True, False):
        assert [(each.path, each.action) for each in binlog.repair(log, dry_run=dry_run)] == [
            (str(archive_path(log)), "index")
        ]
    assert binlog.repair(log) == []
    assert archive_path(log).read_bytes() == packed
    last = index_entries_of_archive(path)[-1]
    assert last[1] + last[3] == binlog.stat(log).files[0].tail
    assert read_all(log) == expected


def test_a_listing_that_missed_a_file_is_repeated(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two calls of a listing a file may become an archive, so that neither name is listed."""
    fill(log)
    archived(log)
    directory = LogDirectory(log)
    whole = directory.names()
    for missing in ("00000001.dat.zst", "00000002.dat.zst"):
        listings = [[name for name in whole if name != missing], whole]
        with monkeypatch.context() as patch:
            patch.setattr(LogDirectory, "names", lambda _, left=listings: left.pop(0))
            assert directory.numbers() == [1, 2, 3, 4]
        assert listings == []


def test_a_file_that_becomes_an_archive_during_a_search_is_found(log: Path) -> None:
    fill(log, files=1)
    raw = (log / "00000001.dat").read_bytes()
    archived(log)
    directory = LogDirectory(log)
    opening = directory.open_regular
    archive_path(log).rename(log / "aside")
    calls = []

    def late(name: str, **flags: bool) -> tuple[int, os.stat_result]:
        calls.append(name)
        if len(calls) == 3:  # it was restored since
            (log / "00000001.dat").write_bytes(raw)
        return opening(name, **flags)

    directory.open_regular = late  # type: ignore[method-assign]
    directory.log_file(1).close()
    assert calls == ["00000001.dat", "00000001.dat.zst", "00000001.dat"]
    (log / "aside").unlink()


def _mixed(log: Path, closed: int) -> None:
    """Make foreign files, and an open native one after them."""
    log.mkdir()
    for number in range(1, closed + 1):
        jpos_file(log, [b"theirs", b"", b"x" * 9000], number=number, status=1, next_number=number + 1)
    jpos_file(log, [b"theirs"], number=closed + 1)
    with Writer(log) as writer:
        writer.cutover()
        writer.append(b"ours")


def test_foreign_files_become_archives_once_no_process_writes_to_them(log: Path) -> None:
    _mixed(log, closed=3)
    with Reader(log) as reader:
        before = list(reader)
    assert archived(log) == []
    then = time.time() - KEEP_SECONDS - 1
    for path in log.glob("*.dat"):
        os.utime(path, (then, then))
    raw = (log / "00000001.dat").read_bytes()
    with open(log / "00000002.dat", "rb+"):
        assert archived(log) == [1]
    assert archived(log) == [2, 3]  # and not the newest closed one, at which a jPOS writer starts
    assert unpacked(archive_path(log)) == raw
    with Reader(log) as reader:
        assert list(reader) == before
    for entry in before:
        with Reader(log, entry.ref) as reader:
            assert next(reader) == entry
    file = binlog.stat(log).files[0]
    assert binlog.split_range(log, 1, 248, file.tail, bytes_max=1)[0][0] == 248
    with Writer(log) as writer:
        writer.cutover()
    assert binlog.stat(log).files[-1].first_sequence == 3 * 3 + 1 + 1


def test_an_archive_of_another_boot_is_read_and_made(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fill(log)
    archived(log, keep_last=2)
    monkeypatch.setattr("binlog.log.files.header.is_this_boot", lambda stored: stored == bytes(16))
    monkeypatch.setattr("binlog.log.archive.archive.boot_id", lambda: bytes(16))
    assert read_all(log) == expected
    assert archived(log) == [2, 3]
    assert read_all(log) == expected


def test_records_appended_after_the_close_are_archived_too(log: Path) -> None:
    """A record that another program appended after the close has no sequence number, and keeps its ref."""
    fill(log, files=1)
    path = log / "00000001.dat"
    data = bytearray(path.read_bytes())
    tail = len(data)
    data[8:16] = struct.pack(">Q", tail + 8)
    path.write_bytes(data + struct.pack(">I", 4) + b"late")
    fill_next(log)
    then = time.time() - KEEP_SECONDS - 1
    for each in log.glob("*.dat"):
        os.utime(each, (then, then))
    with Reader(log) as reader:
        before = list(reader)
    assert _kept_younger(log) == [1]
    with Reader(log) as reader:
        assert list(reader) == before
    with Reader(log, Ref(1, tail)) as reader:
        assert reader.read_batch().first_sequence is None
    with RangeReader(log, 1) as reading:
        last = list(reading)[-1]
        assert isinstance(last, TimedBatch)
        assert list(last.batch)[-1] == b"late"
    assert {problem.rule for problem in binlog.check(log)} == {"late"}
    shutil.rmtree(log)


def fill_next(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
        writer.cutover()
        writer.append(b"2")


def _kept_younger(log: Path) -> list[int]:
    """In a mixed log a file counts as closed no sooner than the next one was made: make that long ago."""
    before = closed_files.KEEP_SECONDS
    closed_files.KEEP_SECONDS = -1.0
    try:
        return archived(log)
    finally:
        closed_files.KEEP_SECONDS = before
