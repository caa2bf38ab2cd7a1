"""`binlog stat`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binlog.cli.main import main
from tests.unit.cli.running import fill, run


def test_it_shows_each_file(log: Path) -> None:
    fill(log, [b"one", b"two"], [b"three"])
    done = run("stat", log)
    assert (done.returncode, done.stderr) == (0, b"")
    head, columns, closed, opened = done.stdout.decode().splitlines()
    assert head.startswith(f"{log}: tail 2:265, records 3, on disk ")
    assert columns.split()[:3] == ["FILE", "STATE", "RECORDS"]
    assert closed.split()[:5] == ["1", "closed", "2", "0", "270"]
    assert opened.split()[:5] == ["2", "open", "1", "2", "265"]


def test_json_is_one_object(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"], [])
    assert main(["stat", "--json", str(log)]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["path"], told["tail"], told["record_count"]) == (str(log), "2:256", 1)
    assert [(file["number"], file["closed"], file["tail"]) for file in told["files"]] == [
        (1, True, 263),
        (2, False, 256),
    ]


def test_a_log_without_files_has_no_table_and_a_missing_directory_is_3(
    log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["stat", str(log)]) == 3
    log.mkdir()
    assert main(["stat", str(log)]) == 0
    assert capfd.readouterr().out == f"{log}: no files yet, records 0, on disk 0 B\n"
