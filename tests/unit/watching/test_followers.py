"""The lag of followers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import binlog
from binlog.watching import FollowerStat, stat_followers
from tests.unit.cli.run_command import fill


def _stat(log: Path) -> FollowerStat:
    (follower,) = stat_followers(binlog.stat(log))
    return follower


def test_the_lag_is_known_at_every_position(log: Path) -> None:
    refs = fill(log, [b"%d" % number for number in range(1000)], [b"x"] * 10)
    position = log / "worker.position"
    for index in (0, 1, 500, 999, 400, 1000, 1009, 3):
        position.write_text(f"{refs[index]}\n")
        follower = _stat(log)
        assert (follower.name, follower.ref, follower.lag_records) == ("worker.position", refs[index], 1010 - index)
    position.write_text("2:306\n")
    assert (_stat(log).lag_records, _stat(log).lag_bytes, _stat(log).lag_seconds) == (0, 0, 0.0)
    position.unlink()
    assert stat_followers(binlog.stat(log)) == ()


@pytest.mark.slow
def test_a_follower_that_stops_lags_more_in_records_bytes_and_seconds(log: Path) -> None:
    with binlog.Writer(log) as writer:
        (log / "worker.position").write_text(f"{writer.append(b'first')}\n")
        before = _stat(log)
        for _ in range(3):
            end = time.monotonic() + 30
            # The time of a record is known once the index has it, after half a second at most.
            while (follower := _stat(log)).lag_seconds is None or follower.lag_seconds < (
                before.lag_seconds or 0
            ) + 0.1:
                assert time.monotonic() < end
                writer.append(b"more")
            assert (follower.lag_records or 0) > (before.lag_records or 0)
            assert (follower.lag_bytes or 0) > (before.lag_bytes or 0)
            before = follower


def test_bytes_are_known_when_records_are_not(log: Path) -> None:
    fill(log, [b"one", b"two"])
    position = log / "worker.position"
    position.write_text("1:257\n")
    follower = _stat(log)
    assert (follower.lag_records, follower.lag_seconds, follower.lag_bytes, follower.problem) == (None, None, 13, None)
    position.write_text("1:263\n")
    assert _stat(log).lag_records == 1


def test_a_follower_whose_log_file_is_gone_says_so(log: Path) -> None:
    fill(log, [b"one", b"two"])
    (log / "worker.position").write_text("9:256\n")
    follower = _stat(log)
    assert (follower.ref, follower.problem) == (binlog.Ref(9, 256), "its log file was removed")


def test_a_duplicate_file_is_shown_once_and_a_missing_one_is_reported(log: Path) -> None:
    fill(log, [b"one"])
    (log / "worker.position").write_text("1:256\n")
    followers = stat_followers(binlog.stat(log), [str(log / "worker.position"), str(log / "none")])
    assert [(Path(each.name).name, each.problem) for each in followers] == [
        ("worker.position", None),
        ("none", "no position file yet"),
    ]
