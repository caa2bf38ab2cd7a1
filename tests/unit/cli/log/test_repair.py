"""`binlog repair`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binlog.cli.main import main
from tests.unit.cli.run_command import fill, run


def _damage(log: Path) -> Path:
    fill(log, [b"one", b"two"], [b"three"])
    path = log / "00000001.dat"
    with open(path, "rb+") as file:
        file.seek(261)
        file.write(b"\xff")
    return path


@pytest.mark.slow
def test_a_sound_log_needs_no_repair(log: Path) -> None:
    fill(log, [b"one"], [b"two"])
    done = run("repair", log)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"nothing to repair\n", b"")


@pytest.mark.slow
def test_each_action_is_a_line_and_a_loss_exits_with_1_until_its_file_is_moved(log: Path) -> None:
    path = _damage(log)
    planned = run("repair", "--dry-run", log)
    assert not list(log.glob("*.damaged"))
    done = run("repair", log)
    assert (done.returncode, done.stdout, done.stderr) == (1, planned.stdout, b"")
    assert done.stdout.startswith(f"{path} at offset 256: 2 records, one of them damaged".encode())
    assert run("cat", log).stdout.splitlines()[-1] == b"three"
    assert b"[quarantined]" in run("check", log).stdout
    (aside,) = log.glob("*.damaged")
    aside.rename(log.parent / "kept")
    assert run("repair", log).stdout == b"nothing to repair\n"


def test_json_is_an_object_for_each_action(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = _damage(log)
    assert main(["repair", "--json", str(log)]) == 1
    (line,) = capfd.readouterr().out.splitlines()
    out = json.loads(line)
    assert (out["path"], out["offset"], out["action"]) == (str(path), 256, "quarantined")
    (aside,) = log.glob("*.damaged")
    aside.unlink()
    assert main(["repair", "--json", str(log)]) == 0
    assert capfd.readouterr().out == ""


def test_a_missing_directory_exits_with_3_and_is_not_created(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["repair", str(log)]) == 3
    assert capfd.readouterr().err.count("\n") == 1
    assert not log.exists()
