"""The lag of followers."""

from __future__ import annotations

from pathlib import Path

import binlog
from binlog.cli.log.followers import Followers, Lag
from tests.unit.cli.run_command import fill


def _lag(followers: Followers, log: Path, seconds_max: float | None = None) -> Lag:
    (lag,) = followers.lags(binlog.stat(log), seconds_max=seconds_max)
    return lag


def test_lag_is_counted_at_every_position(log: Path) -> None:
    refs = fill(log, [b"%d" % number for number in range(1000)], [b"x"] * 10)
    position = log / "worker.position"
    followers = Followers(str(log), [])
    for index in (0, 1, 500, 999, 400, 1000, 1009, 3):
        position.write_text(f"{refs[index]}\n")
        lag = _lag(followers, log)
        assert (lag.name, lag.ref, lag.records) == ("worker.position", refs[index], 1010 - index)
    position.write_text("2:306\n")
    assert (_lag(followers, log).records, _lag(followers, log).bytes) == (0, 0)
    position.unlink()
    assert followers.lags(binlog.stat(log)) == []
    followers.close()


def test_bytes_are_known_when_records_are_not(log: Path) -> None:
    fill(log, [b"one", b"two"])
    position = log / "worker.position"
    followers = Followers(str(log), [])
    position.write_text("1:257\n")
    for _ in range(2):
        lag = _lag(followers, log)
        assert (lag.records, lag.bytes, lag.problem) == (None, 13, None)
    position.write_text("1:263\n")
    assert _lag(followers, log).records == 1
    position.write_text("9:256\n")
    assert _lag(followers, log).problem == "its log file was removed"


def test_counting_stops_at_its_time_limit_and_resumes(log: Path) -> None:
    refs = fill(log, [b"one", b"two", b"three"])
    (log / "worker.position").write_text(f"{refs[1]}\n")
    followers = Followers(str(log), [])
    assert _lag(followers, log, 0).records is None
    assert _lag(followers, log, 10).records == 2


def test_a_duplicate_file_is_shown_once_and_a_missing_one_is_reported(log: Path) -> None:
    fill(log, [b"one"])
    (log / "worker.position").write_text("1:256\n")
    followers = Followers(str(log), [str(log / "worker.position"), str(log / "none")])
    lags = followers.lags(binlog.stat(log))
    assert [(Path(lag.name).name, lag.problem) for lag in lags] == [
        ("worker.position", None),
        ("none", "no position file yet"),
    ]
