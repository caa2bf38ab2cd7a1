"""--since, of `binlog tail` and `binlog cat`."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from binlog.cli.options import parse_since
from tests.unit.cli.run_command import Stream, fill, run, started


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("2025-01-31T12:00:00Z", 1738324800 * 10**9),
        ("2025-01-31T13:00:00+01:00", 1738324800 * 10**9),
        ("2025-01-31 12:00", 1738324800 * 10**9),
        ("2025-01-31", 1738281600 * 10**9),
    ],
)
def test_a_time_without_an_offset_is_utc(text: str, time_ns: int) -> None:
    assert parse_since(text).time_ns == time_ns


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("2h ago", 7200), ("1.5d", 129600), ("1w", 604800)]
)
def test_a_time_ago_is_parsed(text: str, seconds: int) -> None:
    before = time.time_ns()
    out = parse_since(text).time_ns + seconds * 10**9
    assert before - 10**6 <= out <= time.time_ns() + 10**6


@pytest.mark.parametrize("text", ["", "someday", "5", "5y", "-5", "2025-13-01", "1" * 400 + "d"])
def test_other_times_are_wrong_usage(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tail", "--since", text, str(tmp_path)]) == 2
    assert "--since" in capfd.readouterr().err


@pytest.mark.slow
def test_only_records_since_the_time_are_printed(log: Path) -> None:
    fill(log, [b"old"], [b"older than now"])
    now = datetime.now(UTC).isoformat()
    with binlog.Writer(log) as writer:
        writer.append(b"new")
    for command in ("cat", "tail"):
        assert run(command, "--since", now, log).stdout == b"new\n"
        assert run(command, "--since", "1h", log).stdout == b"old\nolder than now\nnew\n"
        assert run(command, "--since", "2100-01-01", log).stdout == b""
        assert run(command, "--since", "9999-12-31T23:59:59Z", log).stdout == b""
        assert run(command, "--until", "9999-12-31T23:59:59Z", "--since", "1960-01-01", log).stdout.endswith(b"new\n")


@pytest.mark.slow
def test_tail_follows_from_a_time(log: Path) -> None:
    fill(log, [b"old"])
    now = datetime.now(UTC).isoformat()
    with binlog.Writer(log) as writer:
        writer.append(b"new")
        with started("tail", "-f", "--since", now, log) as process:
            assert process.stdout is not None
            stream = Stream(process.stdout.fileno())
            assert stream.read_until(b"new\n") == b"new\n"
            writer.append(b"newer")
            assert stream.read_until(b"newer\n") == b"newer\n"


def test_since_conflicts_with_other_starts(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"record"])
    for arguments in (
        ["tail", "--from", "1:256"],
        ["cat", "--from", "1:256"],
        ["cat", "--file", "1"],
    ):
        assert main([*arguments, "--since", "1h", os.fspath(log)]) == 2
    assert capfd.readouterr().err.count("--since") >= 3
