"""`binlog import`: its output, and its exit codes."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from tests.support.logs import read_all
from tests.unit.cli.run_command import run


@pytest.mark.slow
def test_a_file_is_imported_once_and_the_summary_says_so(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "app.jsonl"
    path.write_text("1\n2\n3")
    done = run("import", log, path, "--from", "jsonl")
    assert done.returncode == 0
    assert done.stdout == b""
    left = b"the last 1 B are no complete record yet, and are left"
    assert done.stderr == b"binlog: imported 2 records, from 1:256 on; " + left + b"\n"
    done = run("import", log, path, "--from", "jsonl", "--whole", "--json")
    assert json.loads(done.stdout) == {
        "record_count": 1, "first": "1:266", "skipped_count": 0, "skipped_bytes": 4, "left_bytes": 0,
    }  # fmt: skip
    assert read_all(log) == [b"1", b"2", b"3"]


@pytest.mark.slow
def test_a_wrong_line_is_named_and_what_was_imported_is_counted(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "app.jsonl"
    path.write_text("1\nnonsense\n")
    done = run("import", log, path, "--from", "jsonl")
    assert done.returncode == 1
    assert done.stderr.startswith(b"binlog: line 2: not JSON")
    assert done.stderr.endswith(b"; imported 1 record, from 1:256 on\n")
    assert run("import", log, path, "--from", "jsonl").returncode == 1  # although it imports nothing


@pytest.mark.slow
def test_standard_input_is_imported_each_time(log: Path) -> None:
    for _ in range(2):
        assert run("import", log, "-", "--from", "csv", "-q", data=b"a\n1\n").stderr == b""
    assert read_all(log) == [b'{"a":"1"}'] * 2


@pytest.mark.slow
def test_a_missing_file_or_form_is_refused(log: Path, tmp_path: Path) -> None:
    done = run("import", log, tmp_path / "missing", "--from", "jsonl")
    assert (done.returncode, log.exists()) == (3, False)
    assert b"No such file" in done.stderr
    assert run("import", log, tmp_path / "missing").returncode == 2
    done = run("import", log, tmp_path, "--from", "jsonl")
    assert (done.returncode, log.exists()) == (3, False)
    assert done.stderr == f"binlog: {tmp_path} is a directory\n".encode()


@pytest.mark.slow
def test_an_import_beside_another_one_exits_with_4(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "app.jsonl"
    path.write_text("1\n")
    assert run("import", log, path, "--from", "jsonl").returncode == 0
    with open(log / ".import.lock", "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        done = run("import", log, path, "--from", "jsonl")
    assert done.returncode == 4
    assert b"another process imports a file" in done.stderr
