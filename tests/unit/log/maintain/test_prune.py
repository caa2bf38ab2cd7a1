"""Retention: which files are removed, which never are, and how readers and writers handle it."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from pathlib import Path

import pytest

import binlog
from binlog import Reader, Ref, Start, Writer
from binlog.errors import GoneError
from binlog.log.directory import LogDirectory
from binlog.log.files.closed_files import list_files
from binlog.log.maintain.prune import Retention, _removable
from binlog.log.read.position import KEEP_SECONDS
from tests.support.logs import jpos_file, name_next_file_only, read_all

RECORD = b"x" * 996  # 1000 bytes with its length, so that each file's tail is 1256


def _fill(log: Path, files: int) -> None:
    with Writer(log) as writer:
        for number in range(1, files + 1):
            writer.append(RECORD)
            if number < files:
                writer.cutover()


def _numbers(log: Path) -> list[int]:
    return [file.number for file in binlog.stat(log).files]


def _removed(log: Path, **keep: object) -> list[int]:
    return [file.number for file in binlog.prune(log, **keep)]  # type: ignore[arg-type]


def _grow_old(log: Path, seconds: float) -> None:
    """Let the files of another program have last changed so long ago."""
    then = time.time() - seconds
    for path in log.glob("*.dat"):
        os.utime(path, (then, then))


@pytest.mark.parametrize(
    ("keep_bytes", "removed"),
    [(0, [1, 2, 3]), (1256, [1, 2, 3]), (1257, [1, 2]), (2512, [1, 2]), (2513, [1]), (3769, []), (10**12, [])],
)
def test_the_newest_bytes_are_kept(log: Path, keep_bytes: int, removed: list[int]) -> None:
    _fill(log, 4)
    assert _removed(log, keep_bytes=keep_bytes) == removed
    assert _numbers(log) == [number for number in range(1, 5) if number not in removed]


@pytest.mark.parametrize(
    ("before", "removed"), [("1:256", []), ("2:256", [1]), ("3:1256", [1, 2]), ("4:256", [1, 2, 3])]
)
def test_the_file_of_a_ref_and_all_later_ones_are_kept(log: Path, before: str, removed: list[int]) -> None:
    _fill(log, 4)
    assert _removed(log, before=Ref.parse(before)) == removed


def test_files_closed_long_ago_are_removed(log: Path) -> None:
    _fill(log, 3)
    assert _removed(log, keep_seconds=3600) == []
    assert _removed(log, keep_seconds=0) == [1, 2]
    assert _numbers(log) == [3]


def test_a_file_is_removed_if_all_given_limits_allow_it(log: Path) -> None:
    _fill(log, 5)
    assert _removed(log, keep_bytes=2512, keep_seconds=0, before=Ref(3, 256)) == [1, 2]
    assert _removed(log, keep_bytes=2512, keep_seconds=3600, before=Ref(5, 256)) == []
    assert _removed(log, keep_bytes=2512, keep_seconds=0, before=Ref(5, 256)) == [3]


def test_removed_files_are_reported(log: Path) -> None:
    _fill(log, 3)
    disk = {number: 512 * os.stat(log / f"0000000{number}.dat").st_blocks for number in (1, 2)}
    first, second = binlog.prune(log, keep_bytes=0)
    assert (first.names, first.record_count) == (("00000001.dat", "00000001.idx"), 1)
    assert first.disk_bytes == disk[1] + 4096
    assert (second.names, second.disk_bytes) == (("00000002.dat", "00000002.idx"), disk[2] + 4096)
    assert second.closed_ns == binlog.stat(log).files[0].created_ns


def test_a_dry_run_reports_the_same_and_removes_nothing(log: Path) -> None:
    _fill(log, 3)
    before = sorted(log.iterdir())
    told = binlog.prune(log, keep_bytes=0, dry_run=True)
    assert sorted(log.iterdir()) == before
    assert binlog.prune(log, keep_bytes=0) == told


def test_archives_are_removed_with_their_files_and_quarantined_bytes_only_on_request(log: Path) -> None:
    _fill(log, 4)
    binlog.archive(log, keep_last=1)
    # Leftovers of an archiving process that died: before its file was removed, and in the middle.
    (log / "00000003.dat.zst").write_bytes((log / "00000002.dat.zst").read_bytes())
    for name in (".00000001.dat.zst.new", "00000002.dat.1256-1300.damaged", "notes.txt"):
        (log / name).touch()
    pruned = binlog.prune(log, keep_bytes=0)
    assert [each.names for each in pruned] == [
        ("00000001.dat.zst", ".00000001.dat.zst.new", "00000001.idx"),
        ("00000002.dat.zst", "00000002.idx"),
        ("00000003.dat", "00000003.dat.zst", "00000003.idx"),
    ]
    left = [".repair.lock", "00000002.dat.1256-1300.damaged", "00000004.dat", "00000004.idx", "notes.txt"]
    assert sorted(path.name for path in log.iterdir()) == left
    (log / ".00000002.dat.zst.new").touch()
    binlog.prune(log, keep_bytes=0, damaged=True)
    left.remove("00000002.dat.1256-1300.damaged")
    assert sorted(path.name for path in log.iterdir()) == left


def test_leftovers_of_a_prune_that_died_are_removed_by_the_next(log: Path) -> None:
    _fill(log, 3)
    binlog.prune(log, before=Ref(2, 256))
    (log / "00000001.idx").touch()
    binlog.prune(log, before=Ref(2, 256))
    assert sorted(path.name for path in log.glob("*.idx")) == ["00000002.idx", "00000003.idx"]


def test_writers_readers_and_check_accept_the_remaining_log(log: Path) -> None:
    with Writer(log) as idle, Reader(log) as late, Reader(log, Start.END) as live:
        idle.append(b"1")
        _fill(log, 3)
        assert next(live).data == b"1"
        assert _removed(log, keep_bytes=0) == [1, 2]
        assert binlog.check(log) == []
        assert [entry.data for entry in Reader(log)] == [RECORD]
        assert idle.append(b"after") == Ref(3, 1256)
        assert next(late).data == b"1"  # it had file 1 open
        for reader in (late, live):
            with pytest.raises(GoneError):
                list(reader)
        with pytest.raises(GoneError):
            Reader(log, Ref(2, 256))
        with Writer(log) as writer:
            assert writer.cutover() == 4
            writer.append(b"next")
    files = binlog.stat(log).files
    assert [file.first_sequence for file in files] == [3, 5]
    assert read_all(log) == [RECORD, b"after", b"next"]


def test_a_cutover_that_died_half_way_keeps_its_open_file(log: Path, tmp_path: Path) -> None:
    _fill(log, 1)
    name_next_file_only(log, tmp_path / "aside")
    assert _removed(log, keep_bytes=0) == []
    assert _numbers(log) == [1, 2]
    with Writer(log) as writer:
        assert writer.append(b"after") == Ref(2, 256)
    assert _removed(log, keep_bytes=0) == [1]


def test_the_file_before_a_gap_stays(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _fill(log, 4)
    (log / "00000003.dat").unlink()
    assert _removed(log, keep_bytes=0) == [1]
    assert {problem.rule for problem in binlog.check(log)} == {"missing-next"}


def test_a_locked_file_and_all_later_ones_stay(log: Path) -> None:
    _fill(log, 4)
    with open(log / "00000002.dat", "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another kind of lock, which does not count
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        assert _removed(log, keep_bytes=0) == [1]
    assert _removed(log, keep_bytes=0) == [2, 3]


def _mixed(log: Path, closed: int) -> None:
    """Make foreign files, and an open native one after them."""
    log.mkdir()
    for number in range(1, closed + 1):
        jpos_file(log, [b"theirs"], number=number, status=1, next_number=number + 1)
    jpos_file(log, [b"theirs"], number=closed + 1)
    with Writer(log) as writer:
        writer.cutover()
        writer.append(b"ours")


def test_in_a_mixed_log_the_newest_closed_file_and_one_closed_just_now_stay(log: Path) -> None:
    _mixed(log, closed=2)
    assert _removed(log, keep_bytes=0) == []
    _grow_old(log, KEEP_SECONDS + 1)
    assert _removed(log, keep_bytes=0) == [1, 2]
    assert read_all(log) == [b"theirs", b"ours"]
    assert binlog.stat(log).files[-1].first_sequence == 3


def test_in_a_mixed_log_a_file_that_is_open_for_writing_stays(log: Path) -> None:
    """A jPOS writer that idles on a file makes the next one again if it misses it."""
    _mixed(log, closed=3)
    _grow_old(log, KEEP_SECONDS + 1)
    with open(log / "00000002.dat", "rb+"), open(log / "00000001.dat", "rb"):
        assert [file.number for file in binlog.prune(log, keep_bytes=0, dry_run=True)] == [1]
        assert _removed(log, keep_bytes=0) == [1]
    assert _removed(log, keep_bytes=0) == [2, 3]


def test_the_newest_native_file_stays_while_other_programs_write(log: Path) -> None:
    """It has the start of the record count, and the log's uuid."""
    _fill(log, 2)
    uuid = binlog.stat(log).files[0].uuid
    with Writer(log) as writer:
        writer.append(RECORD)
    data = bytearray((log / "00000002.dat").read_bytes())
    data[6:8], data[20:24] = struct.pack(">H", 1), struct.pack(">I", 3)
    (log / "00000002.dat").write_bytes(data[: binlog.stat(log).files[1].tail])
    for number in (3, 4):
        jpos_file(log, [b"theirs"], number=number, status=1, next_number=number + 1)
    jpos_file(log, [b"theirs"], number=5)
    assert _removable_later(log) == [1]
    with Writer(log) as writer:
        writer.cutover()
    newest = binlog.stat(log).files[-1]
    assert (newest.uuid, newest.first_sequence) == (uuid, 6)
    assert _removable_later(log) == [1, 2, 3, 4]


def _removable_later(log: Path) -> list[int]:
    """Return the files that may be removed once all were closed long enough ago."""
    directory = LogDirectory(log)
    later_ns = time.time_ns() + round(1e9 * KEEP_SECONDS)
    files = _removable(list(list_files(directory)), Retention(keep_bytes=0), has_foreign_writers=True, now_ns=later_ns)
    return [closed.file.header.number for closed in files]


@pytest.mark.parametrize(
    "keep", [{}, {"keep_bytes": -1}, {"keep_seconds": -0.5}, {"keep_seconds": float("nan")}, {"before": Ref(3, 256)}]
)
def test_what_cannot_be_meant_is_refused(log: Path, keep: dict[str, object]) -> None:
    _fill(log, 2)
    with pytest.raises(ValueError, match=r"keep|newest"):
        binlog.prune(log, **keep)  # type: ignore[arg-type]
    assert _numbers(log) == [1, 2]
