"""`binlog archive`, and other commands on archives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from tests.unit.cli.run_command import fill, run


@pytest.mark.slow
def test_it_archives_and_reports(log: Path) -> None:
    fill(log, [b"one" * 1000], [b"two" * 1000], [b"three"])
    done = run("archive", log)
    assert (done.returncode, done.stderr) == (0, b"")
    title, first, second, total = done.stdout.decode().splitlines()
    assert title.split() == ["FILE", "CLOSED", "SIZE", "ARCHIVE", "RATIO"]
    assert first.split()[0] == "00000001.dat"
    assert second.split()[-1].endswith("x")
    assert total.startswith("archived 2 files, 6.4 KiB, to ")
    assert [file.archived for file in binlog.stat(log).files] == [True, True, False]
    again = run("archive", log)
    assert (again.returncode, again.stdout) == (0, b"archived 0 files, 0 B, to 0 B\n")


def test_a_dry_run_says_so_and_json_is_one_object(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"], [b"two"], [b"three"])
    assert main(["archive", "--keep-last", "1", "--dry-run", str(log)]) == 0
    title, row, total = capfd.readouterr().out.splitlines()
    assert title.split() == ["FILE", "CLOSED", "SIZE"]
    assert row.split()[0] == "00000001.dat"
    assert total == "would archive 1 file, 263 B"
    assert main(["archive", "--dry-run", "--json", str(log)]) == 0
    out = json.loads(capfd.readouterr().out)
    assert (out["dry_run"], out["archive_bytes"]) == (True, None)
    assert [(file["number"], file["name"], file["archive_bytes"]) for file in out["files"]] == [
        (1, "00000001.dat.zst", None),
        (2, "00000002.dat.zst", None),
    ]
    assert main(["archive", "--level", "9", "--json", str(log)]) == 0
    out = json.loads(capfd.readouterr().out)
    assert out["archive_bytes"] == sum(file["archive_bytes"] for file in out["files"]) > 0
    assert out["raw_bytes"] == 526


def test_a_skipped_file_is_reported_and_exits_with_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, [b"one"], [b"two"], [b"three"])
    data = bytearray((tmp_path / "00000001.dat").read_bytes())
    data[260] ^= 1
    (tmp_path / "00000001.dat").write_bytes(data)
    assert main(["archive", str(tmp_path)]) == 1
    left, _, row, total = capfd.readouterr().out.splitlines()
    assert left.startswith("not archived: ")
    assert "00000001.dat at offset 256" in left
    assert row.split()[0] == "00000002.dat"
    assert total.startswith("archived 1 file, ")


@pytest.mark.parametrize(
    "wrong",
    [["--keep-last", "-1"], ["--keep-age", "1mo"], ["--level", "0"], ["--level", "20"]],
)
def test_invalid_arguments_exit_with_2(log: Path, wrong: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"], [b"two"])
    assert main(["archive", *wrong, str(log)]) == 2
    assert "archive" in capfd.readouterr().err
    assert not binlog.stat(log).files[0].archived


def test_a_missing_directory_exits_with_3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["archive", str(tmp_path / "none")]) == 3
    assert "none" in capfd.readouterr().err


def test_other_commands_read_archives(log: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    fill(log, [b"one", b"two"], [b"three"], [b"four"])
    assert main(["archive", str(log)]) == 0
    capfdbinary.readouterr()
    for arguments, expected in (
        (["cat"], b"one\ntwo\nthree\nfour\n"),
        (["cat", "--from", "1:263"], b"two\nthree\nfour\n"),
        (["tail", "-n", "3"], b"two\nthree\nfour\n"),
        (["check"], b"no problems found\n"),
        (["repair"], b"nothing to repair\n"),
    ):
        assert main([*arguments, str(log)]) == 0
        assert capfdbinary.readouterr().out == expected
    assert main(["stat", str(log)]) == 0
    rows = [line.split() for line in capfdbinary.readouterr().out.decode().splitlines() if line.strip()[:1].isdigit()]
    assert [row[1] for row in rows] == ["archived", "archived", "open"]
    assert main(["prune", "--keep-bytes", "0", str(log)]) == 0
    assert b"removed 00000001.dat.zst, 00000001.idx: closed 2" in capfdbinary.readouterr().out
