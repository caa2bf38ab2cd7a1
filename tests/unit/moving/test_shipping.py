"""Shipping: copies are a log; later runs copy missing files; pruning of files that have arrived; other directories."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import fsspec
import pytest

import binlog
from binlog import AccessError, ConsumerGroup, CorruptError, Mode, Reader, StateError, Writer
from binlog.moving import follow, ship
from binlog.moving.shipping import shipping
from tests.support.logs import read_all
from tests.support.ship_storms import run_storm

RECORDS = [b"", b"short", b"x" * 70_000, b"\xff\0"]


def _fill(log: Path, *, files: int = 3) -> None:
    with Writer(log) as writer:
        for _ in range(files):
            writer.append_many(RECORDS, mode=Mode.SYNC)
            writer.append(b"one more", mode=Mode.FLUSH)
            writer.cutover()
        writer.append(b"open")


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "far" / "away"


def assert_arrived(log: Path, target: Path) -> None:
    """Check that the target has the closed files of a log, byte for byte, and is a log without problems."""
    for file in binlog.stat(log).files[:-1]:
        name = os.path.basename(file.path)
        assert (target / name).read_bytes() == Path(file.path).read_bytes()
        index = f"{file.number:08d}.idx"
        assert (target / index).read_bytes() == (log / index).read_bytes()
    assert binlog.check(target) == []
    assert not list(target.glob(".*"))


def test_what_arrives_is_a_log_that_is_read_in_place(log: Path, target: Path) -> None:
    _fill(log)
    done = ship(log, target)
    assert [each.number for each in done.files] == [1, 2, 3]
    assert done.last_number == 3
    assert_arrived(log, target)
    assert read_all(target) == read_all(log)[:-1]
    assert [file.shipped for file in binlog.stat(target).files] == [True] * 3


def test_a_later_run_copies_only_what_is_missing(log: Path, target: Path) -> None:
    _fill(log)
    ship(log, target)
    before = {path: path.stat() for path in target.iterdir()}
    assert ship(log, target).files == ()
    with Writer(log) as writer:
        writer.cutover()
    assert [each.number for each in ship(log, target).files] == [4]
    assert {path: path.stat().st_mtime_ns for path in before} == {path: old.st_mtime_ns for path, old in before.items()}
    assert_arrived(log, target)


def test_a_copy_without_its_receipt_is_copied_again(log: Path, target: Path) -> None:
    _fill(log)
    ship(log, target)
    (target / "00000003.shipped").unlink()
    (target / "00000003.idx").unlink()
    assert [each.number for each in ship(log, target).files] == [3]
    assert_arrived(log, target)


def test_archives_arrive_as_they_are_and_an_archived_file_does_not_arrive_twice(log: Path, target: Path) -> None:
    _fill(log, files=2)
    binlog.archive(log, keep_last=1)
    ship(log, target)
    assert_arrived(log, target)
    binlog.archive(log)
    assert ship(log, target).files == ()
    assert sorted(path.name for path in target.glob("*.dat*")) == ["00000001.dat.zst", "00000002.dat"]


def test_a_follower_of_the_copies_continues_when_the_next_file_arrives(log: Path, target: Path) -> None:
    _fill(log, files=1)
    ship(log, target)
    binlog.archive(target)  # also if the last one is an archive
    with Reader(target) as reader:
        assert len(list(reader)) == len(RECORDS) + 1
        assert not reader.wait(0.01)
        with Writer(log) as writer:
            writer.cutover()
        ship(log, target)
        assert reader.wait(10)
        assert [entry.data for entry in reader] == [b"open"]
        assert not reader.wait(0.01)


def test_following_ships_each_file_after_its_cutover(log: Path, target: Path) -> None:
    _fill(log, files=1)
    runs = follow(log, target)
    assert [each.number for each in next(runs).files] == [1]
    with Writer(log) as writer:
        for number in (2, 3):
            writer.cutover()
            assert [each.number for each in next(runs).files] == [number]
    assert_arrived(log, target)


def test_to_append_to_the_copies_they_are_repaired_first(log: Path, target: Path) -> None:
    _fill(log)
    ship(log, target)
    with pytest.raises(CorruptError, match="missing-next"), Writer(target) as writer:
        writer.append(b"x")
    binlog.repair(target)
    with Writer(target) as writer:
        assert writer.append(b"x").number == 4
    assert binlog.check(target) == []
    # Now it is another log from file 4 on.
    with Writer(log) as writer:
        writer.cutover()
    with pytest.raises(StateError, match="another file 00000004"):
        ship(log, target)


def test_a_damaged_file_is_not_shipped_and_those_before_it_are(log: Path, target: Path) -> None:
    _fill(log)
    _flip(log / "00000002.dat", 300)
    with pytest.raises(CorruptError, match="index-crc"):
        ship(log, target)
    assert [path.name for path in target.glob("*.dat")] == ["00000001.dat"]
    assert binlog.check(target) == []
    binlog.repair(log)
    assert [each.number for each in ship(log, target).files] == [2, 3]
    for path in log.glob("*.damaged"):
        path.unlink()


def test_a_copy_that_is_read_back_with_other_bytes_has_no_name(
    log: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(log, files=1)
    reads = iter(range(100))
    read = os.pread

    def pread(fd: int, size: int, offset: int) -> bytes:
        data = read(fd, size, offset)
        is_copy = ".partial" in os.readlink(f"/proc/self/fd/{fd}")
        return b"?" + data[1:] if is_copy and data and next(reads) == 1 else data

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(CorruptError, match="copy"):
        ship(log, target)
    assert sorted(path.name for path in target.iterdir()) == ["00000001.idx"]
    assert len(ship(log, target).files) == 1


def test_files_that_have_arrived_are_pruned(log: Path, target: Path) -> None:
    _fill(log)
    expected = read_all(log)
    done = ship(log, target, prune_shipped=True)
    assert [each.number for each in done.pruned] == [1, 2, 3]
    assert read_all(target) + read_all(log) == expected
    assert ship(log, target, prune_shipped=True).pruned == ()


def test_an_archived_file_is_pruned_if_its_bytes_have_arrived(log: Path, target: Path) -> None:
    _fill(log)
    ship(log, target)
    binlog.archive(log)
    assert len(ship(log, target, prune_shipped=True).pruned) == 3


@pytest.mark.parametrize("damage", [lambda path: _flip(path, 300), lambda path: os.truncate(path, 10)])
def test_a_file_whose_copy_has_changed_is_kept(log: Path, target: Path, damage: Callable[[Path], None]) -> None:
    _fill(log)
    ship(log, target)
    damage(target / "00000002.dat")
    done = ship(log, target, prune_shipped=True)
    assert [each.number for each in done.pruned] == [1]
    assert done.kept_number == 2


@pytest.mark.parametrize("kind", ["dat", "shipped"])
def test_a_copy_or_receipt_that_was_removed_arrives_again(log: Path, target: Path, kind: str) -> None:
    _fill(log)
    ship(log, target)
    (target / f"00000002.{kind}").unlink()
    done = ship(log, target, prune_shipped=True)
    assert [each.number for each in done.files] == [2]
    assert [each.number for each in done.pruned] == [1, 2, 3]


def test_a_receipt_that_cannot_be_read_is_an_error(log: Path, target: Path) -> None:
    _fill(log)
    ship(log, target)
    (target / "00000001.shipped").write_bytes(b"nonsense")
    with pytest.raises(CorruptError, match="it is not a receipt"):
        ship(log, target, prune_shipped=True)
    assert len(binlog.stat(log).files) == 4


def test_what_a_group_is_not_done_with_is_kept(log: Path, target: Path) -> None:
    _fill(log)
    with ConsumerGroup(log, "slow", start=binlog.Sequence(len(RECORDS) + 1)) as group:
        assert next(iter(group.consume(0))).data == RECORDS[0]
    done = ship(log, target, prune_shipped=True)
    assert [each.number for each in done.pruned] == [1]
    assert len(done.files) == 3


def test_other_directories_are_refused(log: Path, target: Path, tmp_path: Path) -> None:
    _fill(log)
    with pytest.raises(StateError, match="log files that were not shipped"):
        ship(log, log)
    other = tmp_path / "other"
    _fill(other)
    ship(other, target)
    with pytest.raises(StateError, match="of another log"):
        ship(log, target)
    assert_arrived(other, target)
    with pytest.raises(AccessError):
        ship(log, log / "00000001.dat")
    with pytest.raises(binlog.NotFoundError):
        ship(tmp_path, target)


def test_the_index_of_another_log_is_not_replaced(log: Path, tmp_path: Path) -> None:
    _fill(log)
    other = tmp_path / "other"
    with Writer(other) as writer:
        writer.append(b"one open file")
    for _ in range(2):
        with pytest.raises(StateError, match="another file 00000001"):
            ship(log, other)
        assert binlog.check(other) == []
        binlog.archive(log)  # whose names are others


def test_the_files_of_another_log_with_other_numbers_are_refused(log: Path, target: Path, tmp_path: Path) -> None:
    _fill(log, files=5)
    binlog.prune(log, before=binlog.Ref(4, 0))
    other = tmp_path / "other"
    _fill(other)
    ship(other, target)
    with pytest.raises(StateError, match="of another log"):
        ship(log, target)
    assert_arrived(other, target)


def test_a_file_that_was_archived_after_a_kill_continues(log: Path, target: Path) -> None:
    _fill(log)
    ship(log, target)
    (target / "00000003.shipped").unlink()
    binlog.archive(log)
    assert [each.number for each in ship(log, target).files] == [3]
    assert binlog.check(target) == []


def test_only_an_index_that_has_arrived_is_replaced(log: Path, target: Path) -> None:
    _fill(log, files=1)
    target.mkdir(parents=True)
    (target / "00000001.idx").write_bytes(b"older")
    ship(log, target)
    assert_arrived(log, target)


@pytest.fixture
def bucket() -> Iterator[str]:
    """A directory in memory, as a URL."""
    yield "memory://bucket/log"
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


def test_a_url_gets_the_same_files(log: Path, bucket: str) -> None:
    _fill(log)
    assert len(ship(log, bucket).files) == 3
    assert ship(log, bucket).files == ()
    files = fsspec.filesystem("memory")
    names = {path.rpartition("/")[2] for path in files.ls("/bucket/log", detail=False)}
    assert names == {f"0000000{number}.{kind}" for number in (1, 2, 3) for kind in ("dat", "idx", "shipped")}
    for number in (1, 2, 3):
        assert files.cat_file(f"/bucket/log/0000000{number}.dat") == (log / f"0000000{number}.dat").read_bytes()
    assert len(ship(log, bucket, prune_shipped=True).pruned) == 3


def test_a_copy_that_a_file_system_cut_short_is_refused(
    log: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(log, files=1)
    files: Any = fsspec.filesystem("memory")
    opened = type(files).open

    class Short:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def write(self, data: bytes) -> int:
            return int(self._file.write(data[: len(data) // 2]))

    monkeypatch.setattr(type(files), "open", lambda self, path, mode: Short(opened(self, path, mode)))
    with pytest.raises(CorruptError, match="copy"):
        ship(log, bucket)
    assert [path for path in files.find("/bucket") if path.endswith((".dat", ".shipped", ".idx"))] == []
    monkeypatch.undo()
    assert len(ship(log, bucket).files) == 1


def test_a_url_without_support_is_refused(log: Path) -> None:
    _fill(log)
    with pytest.raises(ValueError, match="neither pyarrow nor fsspec supports it"):
        ship(log, "dav://x/y")
    with pytest.raises(ValueError, match="is empty"):
        ship(log, "")


def test_a_writer_that_closes_a_file_is_waited_for(log: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "_LOCK_SECONDS", 0.05)
    _fill(log, files=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shipping, "is_locked", lambda fd: True)
        with pytest.raises(binlog.BusyError, match="is locked"):
            ship(log, target)
    assert len(ship(log, target).files) == 1


@pytest.mark.slow
def test_a_ship_killed_at_random_moments_while_processes_append_loses_nothing(log: Path, target: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    assert run_storm(log, str(target), writers=2, kills=3, seed=seed) >= 1
    assert_arrived(log, target)
    assert read_all(target) == read_all(log)
