"""`binlog check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binlog.cli.main import main
from tests.unit.cli.run_command import fill, run


@pytest.mark.slow
def test_a_sound_log_exits_with_0(log: Path) -> None:
    fill(log, [b"one"], [b"two"])
    done = run("check", log)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"no problems found\n", b"")


@pytest.mark.slow
def test_each_problem_is_a_line_and_the_exit_code_is_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, [b"one"])
    path = tmp_path / "00000001.dat"
    with open(path, "rb+") as file:
        file.seek(256)
        file.write(b"\xff")
    done = run("check", tmp_path)
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(f"{path} at offset 256: ".encode())
    assert main(["check", "--json", str(tmp_path)]) == 1
    out = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(each["path"], each["offset"], each["rule"]) for each in out] == [
        (str(path), 256, "index-crc"),
        (str(path), 256, "length"),
    ]


def test_a_missing_directory_exits_with_3(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(log)]) == 3
    assert capfd.readouterr().err.count("\n") == 1
