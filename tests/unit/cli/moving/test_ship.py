"""`binlog ship`: its exit codes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import binlog
from tests.unit.cli.run_command import run


def _fill(log: Path) -> None:
    with binlog.Writer(log) as writer:
        for number in range(2):
            writer.append(b"%d" % number)
            writer.cutover()


def _damage(path: Path) -> None:
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), b"?", 260)


@pytest.mark.slow
def test_a_damaged_file_exits_with_1(tmp_path: Path) -> None:
    log = tmp_path / "damaged"
    _fill(log)
    _damage(log / "00000002.dat")
    done = run("ship", log, tmp_path / "copies")
    assert done.returncode == 1
    assert b"[index-crc]" in done.stderr


@pytest.mark.slow
def test_a_copy_that_has_changed_is_reported_and_exits_with_1(log: Path, tmp_path: Path) -> None:
    _fill(log)
    copies = tmp_path / "copies"
    assert run("ship", log, copies).returncode == 0
    _damage(copies / "00000001.dat")
    done = run("ship", log, copies, "--prune-shipped")
    assert (done.returncode, done.stdout) == (1, b"shipped 0 files, 0 B\n")
    assert b"file 1 of" in done.stderr
    assert b"its copy differ" in done.stderr
    for name in ("00000001.dat", "00000001.shipped"):
        (copies / name).unlink()
    assert run("ship", log, copies, "--prune-shipped").returncode == 0
    assert len(binlog.stat(log).files) == 1


@pytest.mark.slow
def test_a_target_that_cannot_be_used_exits_with_2_or_3(log: Path, tmp_path: Path) -> None:
    _fill(log)
    done = run("ship", log, "nonsense://x")
    assert (done.returncode, done.stderr.count(b"binlog: ")) == (2, 1)
    assert run("ship", log, "").returncode == 2
    assert run("ship", log, log).returncode == 3
