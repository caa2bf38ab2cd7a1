"""The checker's canary: each kind of damage is reported with its rule, and a sound log is silent."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Writer, check
from binlog.format.log_header import Flag, LogHeader, parse_log_header
from tests.support.logs import jpos_file


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A sound log of two files, five records in each; the first closed, the second open."""
    with Writer(tmp_path / "log") as writer:
        writer.append_many([b"record %d" % index for index in range(5)])
        writer.cutover()
        writer.append_many([b"record %d" % index for index in range(5, 10)])
    assert check(tmp_path / "log") == []
    return tmp_path / "log"


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def _rewrite(path: Path, change: Callable[[LogHeader], LogHeader]) -> None:
    """Give the file another header with valid CRCs."""
    header = parse_log_header(path.read_bytes()[:256], path=str(path))
    _overwrite(path, 0, change(header).pack())


def _swallow_the_next_record(path: Path) -> None:
    """Make our last record lead into one that another program appended."""
    header = parse_log_header(path.read_bytes()[:256], path=str(path))
    _overwrite(path, header.tail, struct.pack(">I", 4) + b"text")
    _overwrite(path, 8, struct.pack(">Q", header.tail + 8))
    _overwrite(path, header.tail - 12, struct.pack(">I", 16))


def _rules(log: Path) -> list[str]:
    return [problem.rule for problem in check(log)]


DAMAGE: dict[str, Callable[[Path], None]] = {
    "short-header": lambda path: os.truncate(path, 100),
    "header-length": lambda path: _overwrite(path, 0, b"\0\0\0\1"),
    "version": lambda path: _overwrite(path, 4, b"\0\7"),
    "status": lambda path: _overwrite(path, 6, b"\0\2"),
    "number": lambda path: path.rename(path.with_name("00000003.dat")) and None,
    "magic": lambda path: _overwrite(path, 24, b"X"),
    "identity-crc": lambda path: _overwrite(path, 33, b"\xee\xee"),
    "live-crc": lambda path: _overwrite(path, 73, b"\xee"),
    "slot-crc": lambda path: _overwrite(path, 150, b"\xee"),
    "zero": lambda path: _overwrite(path, 250, b"\1"),
    "tail": lambda path: _overwrite(path, 8, struct.pack(">Q", 200)),
    "truncated": lambda path: os.truncate(path, 300),
    "length": lambda path: _overwrite(path, 256, b"\xff\xff\xff\xff"),
    "chain": _swallow_the_next_record,
    "record-count": lambda path: _rewrite(path, lambda header: header._replace(record_count=4)),
    "sequence": lambda path: _rewrite(path, lambda header: header._replace(first_sequence=4)),
    "gap": lambda path: _rewrite(path, lambda header: header._replace(first_sequence=6)),
    "uuid": lambda path: _rewrite(path, lambda header: header._replace(uuid=bytes(16))),
    "poison": lambda path: _rewrite(path, lambda header: header._replace(flags=Flag.POISON, poison_errno=5)),
    "next-number": lambda path: _overwrite(path, 20, struct.pack(">I", 2)),
}


@pytest.mark.parametrize("rule", DAMAGE)
def test_damage_to_the_open_file_is_reported_with_its_rule(log: Path, rule: str) -> None:
    DAMAGE[rule](log / "00000002.dat")
    assert rule in _rules(log)


def test_a_removed_next_file_is_reported(log: Path) -> None:
    (log / "00000002.dat").unlink()
    assert _rules(log) == ["missing-next"]


def test_a_gap_in_the_numbers_is_reported(log: Path) -> None:
    with Writer(log) as writer:
        writer.cutover()
    (log / "00000002.dat").unlink()
    assert _rules(log) == ["missing-next"]


def test_a_file_in_use_after_an_open_one_is_reported(log: Path) -> None:
    _overwrite(log / "00000001.dat", 6, b"\0\0")
    assert _rules(log) == ["status"]
    _overwrite(log / "00000001.dat", 20, b"\0\0\0\0")
    assert _rules(log) == ["two-open"]


def test_records_appended_after_the_close_are_reported(log: Path) -> None:
    path = log / "00000001.dat"
    late = struct.pack(">I", 4) + b"late"
    tail = path.stat().st_size
    _overwrite(path, tail, late)
    _overwrite(path, 8, struct.pack(">Q", tail + len(late)))
    assert [(problem.rule, problem.offset) for problem in check(log)] == [("late", tail)]


def test_damage_in_one_file_does_not_hide_damage_in_another(log: Path) -> None:
    _overwrite(log / "00000001.dat", 256, b"\xff\xff\xff\xff")
    _overwrite(log / "00000002.dat", 73, b"\xee")
    assert _rules(log) == ["index-crc", "length", "live-crc"]


def test_a_symbolic_link_in_place_of_a_file_is_reported(log: Path) -> None:
    (log / "00000002.dat").rename(log / "aside")
    (log / "00000002.dat").symlink_to(log / "aside")
    assert _rules(log) == ["unreadable"]


def test_a_jpos_log_is_sound(tmp_path: Path) -> None:
    jpos_file(tmp_path, [b"a", b""], status=1, next_number=2)
    jpos_file(tmp_path, [b"c"], number=2)
    assert check(tmp_path) == []


def test_checking_repairs_nothing(log: Path) -> None:
    DAMAGE["live-crc"](log / "00000002.dat")
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    check(log)
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before


def test_a_problem_reads_as_a_sentence(log: Path) -> None:
    DAMAGE["status"](log / "00000002.dat")
    (problem,) = binlog.check(log)
    assert str(problem).endswith("00000002.dat at offset 6: the status is 2, and the file is open [status]")


def _four_files(path: Path) -> Path:
    with Writer(path) as writer:
        for first in range(0, 40, 10):
            writer.append_many([b"record %d" % index for index in range(first, first + 10)])
            if first < 30:
                writer.cutover()
    return path


@pytest.mark.parametrize(
    "harm",
    [
        lambda log: None,
        lambda log: _overwrite(log / "00000002.dat", 300, b"\xff"),
        lambda log: os.truncate(log / "00000003.dat", 100),
        lambda log: (log / "00000003.dat").unlink(),
        lambda log: (log / "00000004.dat").unlink(),
        lambda log: (log / "00000001.dat").unlink(),
    ],
)
def test_checking_file_by_file_finds_the_same_as_the_whole_log(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    log = _four_files(tmp_path / "log")
    harm(log)
    sizes = binlog.file_sizes(log)
    assert sizes == {int(path.stem): path.stat().st_size for path in sorted(log.glob("*.dat"))}
    assert [problem for number in sizes for problem in check(log, number=number)] == check(log)


def test_a_missing_file_has_no_problems(tmp_path: Path) -> None:
    assert check(_four_files(tmp_path / "log"), number=9) == []


def test_the_end_of_damage_is_reported(tmp_path: Path) -> None:
    log = _four_files(tmp_path / "log")
    _overwrite(log / "00000002.dat", 300, b"\xff")
    [problem] = check(log)
    assert (problem.rule, problem.offset, problem.end) == ("index-crc", 256, (log / "00000002.dat").stat().st_size)
