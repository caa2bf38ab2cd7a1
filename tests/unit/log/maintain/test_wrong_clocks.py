"""A clock that was wrong for a while: no time decides alone, and retention keeps files in doubt."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Reader, Since, Writer
from binlog.format.log_header import LogHeader, parse_log_header
from binlog.log.index.index import closing_times
from binlog.log.options import Limits
from tests.support.indexes import date_entries

DAY = 86_400
NOW = time.time()
AHEAD, BEHIND = 4_070_908_800.0, 10.0
"""In 2099, and in 1970."""


def _header(path: Path) -> LogHeader:
    return parse_log_header(path.read_bytes()[:256], path=str(path))


def _date(log: Path, number: int, *, made: float, appended: float) -> None:
    """Make a file's header and index say these times, as a wrong clock would."""
    path = log / f"{number:08d}.dat"
    header = _header(path)._replace(created_ns=int(made * 1e9))
    path.write_bytes(header.pack() + path.read_bytes()[256:])
    date_entries(log, number, lambda place, count: appended)
    os.utime(path, (appended, appended))


def _make(log: Path, *dates: tuple[float, float]) -> None:
    with Writer(log) as writer:
        for number in range(len(dates)):
            writer.append(b"%d" % (number + 1))
            if number < len(dates) - 1:
                writer.cutover()
    for number, (made, appended) in enumerate(dates, 1):
        _date(log, number, made=made, appended=appended)


def _pruned(log: Path, days: float) -> list[int]:
    return [each.number for each in binlog.prune(log, keep_seconds=days * DAY, dry_run=True)]


def _since(log: Path, days: float) -> list[bytes]:
    return [entry.data for entry in Reader(log, Since(NOW - days * DAY))]


def test_retention_keeps_a_file_whose_next_one_was_made_in_1970(tmp_path: Path) -> None:
    _make(tmp_path, (NOW - 90 * DAY, NOW - 80 * DAY), (NOW - 79 * DAY, NOW - DAY), (BEHIND, NOW - DAY / 2))
    assert _pruned(tmp_path, 30) == [1]
    assert _pruned(tmp_path, 0.9) == [1, 2]


def test_retention_continues_after_a_cutover_in_2099(tmp_path: Path) -> None:
    dates = [(NOW - 90 * DAY, NOW - 80 * DAY), (AHEAD, AHEAD), (NOW - 60 * DAY, NOW - 50 * DAY), (NOW - 10 * DAY, NOW)]
    _make(tmp_path, *dates)
    assert _pruned(tmp_path, 30) == [1, 2]
    assert _pruned(tmp_path, 70) == []
    assert _pruned(tmp_path, 5) == [1, 2, 3]


def test_retention_by_a_slow_clock_removes_nothing() -> None:
    assert closing_times([[10, 20, 30], [30, 40, 50]], 5) == [5, 5]


def test_the_open_file_is_cut_over_by_age_though_it_was_made_in_2099(tmp_path: Path) -> None:
    _make(tmp_path, (AHEAD, AHEAD))
    header = _header(tmp_path / "00000001.dat")
    assert Limits(file_bytes=None, seconds=DAY).reached(header)
    assert not Limits(file_bytes=None, seconds=DAY).reached(header._replace(created_ns=time.time_ns()))
    with Writer(tmp_path, cutover_seconds=DAY) as writer:
        writer.append(b"more")
        writer.sync()
        deadline = time.monotonic() + 60
        with Reader(tmp_path) as reader:
            while binlog.stat(tmp_path).files[-1].number == 1:
                assert time.monotonic() < deadline
                reader.wait(0.01)
        assert abs(_header(tmp_path / "00000002.dat").created_ns / 1e9 - time.time()) < 60


def test_records_of_2099_are_not_returned_for_every_later_time(tmp_path: Path) -> None:
    _make(tmp_path, (NOW - 30 * DAY, AHEAD), (NOW - 20 * DAY, NOW - 10 * DAY), (NOW - 9 * DAY, NOW - DAY))
    assert _since(tmp_path, 5) == [b"3"]
    assert _since(tmp_path, 15) == [b"2", b"3"]
    assert _since(tmp_path, 25) == [b"1", b"2", b"3"]


def test_times_before_the_file_was_made_hide_no_records(tmp_path: Path) -> None:
    _make(tmp_path, (NOW - 30 * DAY, BEHIND), (NOW - 20 * DAY, BEHIND))
    for number in (1, 2):
        os.utime(tmp_path / f"{number:08d}.dat", (NOW, NOW))
    assert _since(tmp_path, 5) == [b"1", b"2"]


# Times of an entry of the first of two files, made 30 and 10 days ago; its six entries were 28, 26, ... 18 days ago.
_FORGED: dict[str, Callable[[int, int], float]] = {
    "all before the file was made": lambda place, count: BEHIND,
    "the first before the file was made": lambda place, count: NOW - (28 - 2 * place) * DAY if place else BEHIND,
    "one earlier": lambda place, count: NOW - (28 - 2 * place + 5 * (place == 3)) * DAY,
    "the last earlier": lambda place, count: NOW - (28 - 2 * place + 9 * (place == count - 1)) * DAY,
    "one later": lambda place, count: NOW - (28 - 2 * place - 5 * (place == 3)) * DAY,
    "all after the next file was made": lambda place, count: NOW - DAY,
    "the last in the future": lambda place, count: AHEAD if place == count - 1 else NOW - (28 - 2 * place) * DAY,
}


@pytest.mark.parametrize("dated", _FORGED.values(), ids=_FORGED)
def test_times_that_contradict_the_files_hide_no_records_and_are_reported(
    tmp_path: Path, dated: Callable[[int, int], float]
) -> None:
    with Writer(tmp_path) as writer:
        for number in range(6):
            writer.append(b"%d" % number * 70_000)  # more than a range may have
        writer.cutover()
        writer.append(b"6")
    _date(tmp_path, 1, made=NOW - 30 * DAY, appended=NOW - 28 * DAY)
    _date(tmp_path, 2, made=NOW - 10 * DAY, appended=NOW - 10 * DAY)
    date_entries(tmp_path, 1, lambda place, count: NOW - (28 - 2 * place) * DAY)
    assert binlog.check(tmp_path) == []
    expected = {days: _since(tmp_path, days) for days in (40, 27, 21, 19, 17, 11)}
    assert [len(records) for records in expected.values()] == [7, 6, 3, 2, 1, 1]
    date_entries(tmp_path, 1, dated)
    assert {problem.rule for problem in binlog.check(tmp_path)} <= {"time", "index"}
    assert binlog.check(tmp_path) != []
    for days, records in expected.items():
        found = _since(tmp_path, days)
        assert found[len(found) - len(records) :] == records


@pytest.mark.parametrize(
    ("dates", "count"),
    [
        ((NOW - DAY, NOW - DAY / 2), 0),
        ((NOW, NOW - 60), 0),  # a clock that was adjusted by a minute
        ((AHEAD, NOW), 1),
        ((NOW - DAY, AHEAD), 1),
        ((AHEAD, AHEAD), 2),
        ((NOW - DAY, BEHIND), 1),
    ],
)
def test_check_reports_times_that_contradict(tmp_path: Path, dates: tuple[float, float], count: int) -> None:
    _make(tmp_path, dates)
    assert [problem.rule for problem in binlog.check(tmp_path)] == ["time"] * count
