from __future__ import annotations

import struct
from pathlib import Path

import pytest

import binlog
from binlog import Ref, Writer
from binlog.errors import CorruptError
from tests.support.logs import jpos_file, name_next_file_only, raw_records, read_all


def _header(path: Path) -> tuple[int, ...]:
    return struct.unpack(">IHHQII", path.read_bytes()[:24])


def test_a_cutover_closes_one_file_cut_to_its_tail_and_opens_the_next(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"hello")
        assert writer.cutover() == 2
        assert writer.append(b"next") == Ref(2, 256)
    assert _header(log / "00000001.dat") == (252, 1, 1, 265, 1, 2)
    assert (log / "00000001.dat").stat().st_size == 265
    assert _header(log / "00000002.dat") == (252, 1, 0, 264, 2, 0)
    assert read_all(log) == [b"hello", b"next"]


def test_many_callers_with_the_same_expected_number_cause_one_cutover(log: Path) -> None:
    with Writer(log) as first, Writer(log) as second:
        assert first.cutover(expected=1) == 2
        assert second.cutover(expected=1) == 2
        assert first.cutover(expected=1) == 2
        assert second.cutover(expected=7) == 2
        assert second.cutover() == 3
        assert first.cutover(expected=3) == 4


def test_empty_files_are_cut_over_and_skipped(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(2, 6):
            assert writer.cutover() == number
        writer.append(b"here")
    assert read_all(log) == [b"here"]
    assert (log / "00000003.dat").stat().st_size == 256


def test_a_writer_that_slept_through_cutovers_catches_up(log: Path) -> None:
    with Writer(log) as sleeper, Writer(log) as other:
        sleeper.append(b"1")
        for _ in range(3):
            other.cutover()
        assert sleeper.append(b"2") == Ref(4, 256)


def test_sequence_numbers_continue_after_a_cutover(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"x"] * 5)
        writer.cutover()
        writer.append_many([b"y"] * 2)
        writer.cutover()
    assert [(file.first_sequence, file.record_count) for file in binlog.stat(log).files] == [(0, 5), (5, 2), (7, 0)]


def test_a_next_file_left_by_a_cutover_that_died_is_adopted(log: Path, tmp_path: Path) -> None:
    """The cutover only named it; then writers that had the old file open appended to that."""
    with Writer(log) as writer:
        writer.append(b"1")
        name_next_file_only(log, tmp_path / "other")
        writer.append(b"2")
        assert writer.cutover() == 2
        assert writer.append(b"3") == Ref(2, 256)
    assert [file.first_sequence for file in binlog.stat(log).files] == [0, 2]
    assert read_all(log) == [b"1", b"2", b"3"]


def test_a_writer_that_opens_finishes_a_cutover_that_died(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
    name_next_file_only(log, tmp_path / "other")
    with Writer(log) as writer:
        assert writer.append(b"2") == Ref(2, 256)
    assert _header(log / "00000001.dat")[2] == 1
    assert read_all(log) == [b"1", b"2"]


def test_a_wrong_file_with_the_next_number_is_never_replaced(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
        (log / "00000002.dat").write_bytes(b"somebody's notes")
        with pytest.raises(CorruptError):
            writer.cutover()
        assert (log / "00000002.dat").read_bytes() == b"somebody's notes"
        with pytest.raises(CorruptError):
            Writer(log)
        (log / "00000002.dat").unlink()
        assert writer.cutover() == 2


def test_a_closed_file_not_yet_cut_is_cut_by_the_next_writer(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
        writer.cutover()
    with open(log / "00000001.dat", "ab") as file:
        file.write(bytes(5000))
    with Writer(log):
        assert (log / "00000001.dat").stat().st_size == 261


def test_a_jpos_file_is_followed_by_one_of_ours_with_the_right_sequence(log: Path) -> None:
    log.mkdir()
    jpos_file(log, [b"a", b"bb"], status=1, next_number=2)
    jpos_file(log, [b"c"], number=2)
    with Writer(log) as writer:
        assert writer.append(b"d") == Ref(2, 253)
        assert writer.cutover() == 3
        writer.append(b"e")
    assert binlog.stat(log).files[2].first_sequence == 4
    assert binlog.stat(log).files[2].has_foreign_writers
    assert read_all(log) == [b"a", b"bb", b"c", b"d", b"e"]
    assert raw_records(log / "00000003.dat") == [b"e"]
