"""`binlog stat`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from tests.unit.cli.run_command import Terminal, fill, run


@pytest.mark.slow
def test_it_shows_each_file(log: Path) -> None:
    fill(log, [b"one", b"two"], [b"three"])
    done = run("stat", log)
    assert (done.returncode, done.stderr) == (0, b"")
    head, beside, columns, closed, opened = done.stdout.decode().splitlines()
    assert head.startswith(f"{log}: tail 2:265, records 3, on disk ")
    assert beside == "indexes 8.0 KiB"
    assert columns.split()[:3] == ["FILE", "STATE", "RECORDS"]
    assert closed.split()[:5] == ["1", "closed", "2", "0", "270"]
    assert opened.split()[:5] == ["2", "open", "1", "2", "265"]


def test_json_is_one_object(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"], [])
    assert main(["stat", "--json", str(log)]) == 0
    out = json.loads(capfd.readouterr().out)
    assert (out["path"], out["tail"], out["record_count"]) == (str(log), "2:256", 1)
    assert [(file["number"], file["closed"], file["tail"]) for file in out["files"]] == [
        (1, True, 263),
        (2, False, 256),
    ]


def test_indexes_archives_and_quarantined_bytes_are_shown(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"], [b"two"])
    for name in ("00000001.dat.zst", "00000001.dat.263-300.damaged"):
        (log / name).write_bytes(bytes(5000))
    assert main(["stat", str(log)]) == 0
    assert "indexes 8.0 KiB; archives 8.0 KiB; quarantined 8.0 KiB\n" in capfd.readouterr().out
    assert main(["stat", "--json", str(log)]) == 0
    out = json.loads(capfd.readouterr().out)
    assert (out["index_bytes"], out["archive_bytes"], out["damaged_bytes"], out["new_bytes"]) == (
        8192,
        8192,
        8192,
        0,
    )
    assert out["disk_bytes"] == 3 * 8192 + sum(file["disk_bytes"] for file in out["files"])
    assert out["prepared_bytes"] == sum(file["prepared_bytes"] for file in out["files"]) > 0
    assert out["used_bytes"] == 2 * (256 + 7)
    assert (out["unsynced_bytes"], out["staged_bytes"]) == (0, None)


def test_stat_shows_the_lag_of_followers(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    refs = fill(log, [b"1", b"2", b"3"])
    elsewhere = log.parent / "worker"
    elsewhere.write_text(f"{refs[1]}\n")
    (log / "audit.position").write_text(f"{binlog.stat(log).tail}\n")
    assert main(["stat", "--position", str(elsewhere), str(log)]) == 0
    assert capfd.readouterr().out.splitlines()[-2:] == [
        f"{elsewhere}: {refs[1]}, lag 2 records, 10 B",
        f"audit.position: {binlog.stat(log).tail}, lag 0 records, 0 B",
    ]
    assert main(["stat", "--json", "--position", str(elsewhere), str(log)]) == 0
    out = json.loads(capfd.readouterr().out)["followers"]
    assert [(each["name"], each["records_behind"]) for each in out] == [("worker", 2), ("audit.position", 0)]


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "shown"), [(200, 9), (80, 7), (60, 6), (20, 5)])
def test_a_table_drops_columns_on_a_narrow_terminal(log: Path, columns: int, shown: int) -> None:
    fill(log, [b"one"], [b"two"])
    with Terminal("stat", log, columns=columns) as terminal:
        lines = terminal.read_rest().decode().splitlines()
    (at,) = (index for index, line in enumerate(lines) if line.split()[:1] == ["FILE"])
    names = lines[at].split("  ")
    assert len([name for name in names if name.strip()]) == shown
    if columns > 20:
        assert max(map(len, lines[at:])) <= columns
