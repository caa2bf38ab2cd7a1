"""Snapshots are consistent, whatever happens between reading the first header and the last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import FileStat, LogStat, Writer
from binlog.errors import CorruptError, NotFoundError
from binlog.format.log_header import HEADER_BYTES, parse_log_header
from binlog.spark.log.snapshot import take_snapshot

Script = Callable[..., None]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three files: two closed, with records, and one open."""
    log = tmp_path / "log"
    with Writer(log) as writer:
        for record in (b"one", b"two"):
            writer.append(record)
            writer.cutover()
        writer.append(b"three")
    return log


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Make the next calls of stat() return these files, each once."""

    def seen(*answers: tuple[FileStat, ...]) -> None:
        real, left = binlog.stat, list(answers)
        monkeypatch.setattr(binlog, "stat", lambda path: LogStat(path=path, files=left.pop(0)) if left else real(path))

    return seen


@pytest.fixture
def files(log: Path) -> tuple[FileStat, ...]:
    return binlog.stat(log).files


def test_a_log_at_rest(log: Path, files: tuple[FileStat, ...]) -> None:
    assert take_snapshot(log) == files


def test_an_empty_directory(tmp_path: Path) -> None:
    assert take_snapshot(tmp_path) == ()


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        take_snapshot(tmp_path / "log")


def opened(file: FileStat) -> FileStat:
    """Return a file as it was before its cutover."""
    return file._replace(closed=False, next_number=0)


def test_a_cutover_between_two_header_reads_leaves_no_hole(
    log: Path, files: tuple[FileStat, ...], seen: Script
) -> None:
    """File 2 was read while it was open; then records went to it, and to file 3, before file 3 was read."""
    one, two, three = files
    seen((one, opened(two)._replace(tail=two.first_offset), three))
    assert take_snapshot(log) == files


def test_cutovers_between_all_header_reads(log: Path, files: tuple[FileStat, ...], seen: Script) -> None:
    one, two, three = files
    seen((opened(one), two, three), (one, opened(two), three))
    assert take_snapshot(log) == files


def test_a_next_file_created_after_the_listing(log: Path, files: tuple[FileStat, ...], seen: Script) -> None:
    seen(files[:2])
    assert take_snapshot(log) == files


def test_files_removed_between_two_header_reads(log: Path, files: tuple[FileStat, ...], seen: Script) -> None:
    """Retention removed file 2 after file 1 was read."""
    one, _, three = files
    (log / "00000001.dat").unlink()
    (log / "00000002.dat").unlink()
    seen((one, three))
    assert take_snapshot(log) == (three,)


def test_an_open_file_before_an_empty_one_is_an_unfinished_cutover(
    log: Path, files: tuple[FileStat, ...], seen: Script
) -> None:
    one, two, three = files
    unfinished = (one, opened(two), three._replace(tail=three.first_offset))
    seen(unfinished)
    assert take_snapshot(log) == unfinished


def refused(log: Path) -> CorruptError:
    with pytest.raises(CorruptError) as caught:
        take_snapshot(log)
    return caught.value


def test_two_files_in_use_at_once_are_damage(log: Path) -> None:
    path = log / "00000002.dat"
    data = bytearray(path.read_bytes())
    data[6:8] = b"\0\0"  # the status
    data[20:24] = bytes(4)  # the next number, which alone makes a file closed
    path.write_bytes(data)
    assert (refused(log).path, refused(log).rule) == (str(path), "two-open")


def test_a_missing_file_is_damage(log: Path) -> None:
    (log / "00000002.dat").unlink()
    assert (refused(log).path, refused(log).rule) == (str(log / "00000001.dat"), "missing-next")


def test_a_missing_last_file_is_damage(log: Path) -> None:
    (log / "00000003.dat").unlink()
    assert (refused(log).path, refused(log).rule) == (str(log / "00000002.dat"), "missing-next")


def test_a_file_of_another_log_is_damage(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with Writer(other) as writer:
        for _ in range(2):
            writer.cutover()
    (other / "00000003.dat").rename(log / "00000003.dat")
    assert (refused(log).path, refused(log).rule) == (str(log / "00000003.dat"), "uuid")


def test_records_that_are_missing_between_two_files_are_damage(log: Path) -> None:
    path = log / "00000003.dat"
    data = path.read_bytes()
    header = parse_log_header(data[:HEADER_BYTES], path=str(path))
    path.write_bytes(header._replace(first_sequence=header.first_sequence + 3).pack() + data[HEADER_BYTES:])
    assert (refused(log).path, refused(log).rule) == (str(log / "00000002.dat"), "gap")
    binlog.repair(log)
    assert sum(file.record_count or 0 for file in take_snapshot(log)) == header.first_sequence + 3 + header.record_count
    (next(log.glob("*.damaged"))).unlink()
