"""`binlog cutover`."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from tests.unit.cli.run_command import fill, run


@pytest.mark.slow
def test_it_closes_the_open_file_and_prints_the_next(log: Path) -> None:
    fill(log, [b"one"])
    done = run("cutover", log)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"file 2 is open now\n", b"")
    assert [file.closed for file in binlog.stat(log).files] == [True, False]


def test_expected_cuts_over_once(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"])
    for _ in range(2):
        assert main(["cutover", "--expected", "1", "--json", str(log)]) == 0
    assert capfd.readouterr().out == '{"number":2}\n{"number":2}\n'


def test_a_mistyped_directory_exits_with_3_and_is_not_created(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["cutover", str(log)]) == 3
    assert capfd.readouterr().err == f"binlog: {log}: there is no such directory\n"
    assert not log.exists()


@pytest.mark.slow
def test_a_locked_log_exits_with_4(log: Path) -> None:
    fill(log, [b"one"])
    with open(log / "00000001.dat", "rb+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        done = run("cutover", "--timeout", "0.01", log)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (4, b"", 1)
    assert f"process {os.getpid()}".encode() in done.stderr
