"""`binlog export`: its output, its limits and its exit codes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import binlog
from tests.unit.cli.run_command import run


def _fill(log: Path) -> None:
    with binlog.Writer(log) as writer:
        for number in range(3):
            writer.append(b"%d" % number)


def test_records_are_exported_and_counted(log: Path, tmp_path: Path) -> None:
    _fill(log)
    out = tmp_path / "out.db"
    done = run("export", log, out, "--to", "sqlite")
    assert done.stdout.startswith(b"exported 3 records, 1:256 to 1:266, to ")
    with sqlite3.connect(out) as database:
        assert database.execute("SELECT data FROM records WHERE sequence > 0").fetchall() == [("1",), ("2",)]
    database.close()


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


def test_wrong_use_is_refused_and_leaves_no_file(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("export", log, out, "--to", "csv").returncode == 3  # there is no log
    _fill(log)
    assert run("export", log, out, "--to", "csv", "--from", "1:257").returncode == 2
    assert run("export", log, out, "--to", "csv", "--since", "nonsense").returncode == 2
    assert run("export", log, out, "--to", "csv", "--since", "1h", "--from", "1:256").returncode == 2
    assert run("export", log, tmp_path / "missing" / "out", "--to", "csv").returncode == 3
    assert not out.exists()
