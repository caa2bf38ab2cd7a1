"""`binlog export`: its output, its limits and its exit codes."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

import binlog
from tests.unit.cli.run_command import run


def _fill(log: Path) -> None:
    with binlog.Writer(log) as writer:
        for number in range(3):
            writer.append(b"%d" % number)


@pytest.mark.slow
def test_records_are_exported_and_counted(log: Path, tmp_path: Path) -> None:
    _fill(log)
    out = tmp_path / "out.db"
    done = run("export", log, out, "--to", "sqlite")
    assert done.stdout.startswith(b"exported 3 records, 1:256 to 1:266, to ")
    with sqlite3.connect(out) as database:
        assert database.execute("SELECT data FROM records WHERE sequence > 0").fetchall() == [("1",), ("2",)]
    database.close()


@pytest.mark.slow
def test_limits_are_passed_on(log: Path, tmp_path: Path) -> None:
    _fill(log)
    out = tmp_path / "out"
    said = json.loads(run("export", log, out, "--to", "csv", "--from", "1:261", "--json").stdout)
    assert (said["record_count"], said["first"], said["last"]) == (2, "1:261", "1:266")
    assert b"exported 3 records" in run("export", log, out, "--to", "csv", "--since", "1h").stdout
    assert b"exported 0 records" in run("export", log, out, "--to", "csv", "--until", "1h ago").stdout
    assert out.read_text().splitlines() == [
        "number,offset,sequence,appended,time,severity,level,logger,body,event,attributes,trace_id,span_id,text,base64"
    ]


@pytest.mark.slow
def test_wrong_use_is_refused_and_leaves_no_file(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("export", log, out, "--to", "csv").returncode == 3  # there is no log
    _fill(log)
    assert run("export", log, out, "--to", "csv", "--from", "1:257").returncode == 2
    assert run("export", log, out, "--to", "csv", "--since", "nonsense").returncode == 2
    assert run("export", log, out, "--to", "csv", "--since", "1h", "--from", "1:256").returncode == 2
    assert run("export", log, tmp_path / "missing" / "out", "--to", "csv").returncode == 3
    assert not out.exists()


@pytest.mark.slow
def test_a_pipe_is_not_replaced_and_standard_output_is_refused(log: Path, tmp_path: Path) -> None:
    _fill(log)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = run("export", log, pipe, "--to", "csv")
    assert (done.returncode, pipe.is_fifo()) == (3, True)
    assert b"is a pipe or a device" in done.stderr
    done = run("export", log, "-", "--to", "csv", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "-").exists()) == (2, False)
    assert b"binlog cat --json" in done.stderr


@pytest.mark.slow
def test_damaged_records_exit_with_1_and_leave_no_file(tmp_path: Path) -> None:
    log = tmp_path / "damaged"
    _fill(log)
    with open(log / "00000001.dat", "r+b") as file:
        os.pwrite(file.fileno(), b"?", 260)
    out = tmp_path / "out"
    done = run("export", log, out, "--to", "csv")
    assert (done.returncode, out.exists()) == (1, False)
    assert b"[index-crc]" in done.stderr
