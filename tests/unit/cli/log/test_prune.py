"""`binlog prune`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from binlog.consumers import ConsumerGroup
from binlog.seal import SigningKey, begin_seal
from tests.unit.cli.run_command import fill, run


@pytest.mark.slow
def test_it_removes_files_and_reports(log: Path) -> None:
    fill(log, [b"one"], [b"two"], [b"three"])
    done = run("prune", "--before", "3:256", "--keep-age", "0s", log)
    assert (done.returncode, done.stderr) == (0, b"")
    first, second, total = done.stdout.decode().splitlines()
    assert first.startswith("removed 00000001.dat, 00000001.idx: closed 2")
    assert second.endswith(" on disk")
    assert total.startswith("removed 2 files, ")
    assert [file.number for file in binlog.stat(log).files] == [3]


def test_a_dry_run_says_so_and_json_is_one_object(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"], [b"two"])
    assert main(["prune", "--keep-bytes", "0", "--dry-run", str(log)]) == 0
    assert capfd.readouterr().out.splitlines()[-1].startswith("would remove 1 file, ")
    assert main(["prune", "--keep-bytes", "0", "--dry-run", "--json", str(log)]) == 0
    out = json.loads(capfd.readouterr().out)
    assert (out["dry_run"], [file["number"] for file in out["files"]]) == (True, [1])
    assert out["files"][0]["names"] == ["00000001.dat", "00000001.idx"]
    assert out["disk_bytes"] == out["files"][0]["disk_bytes"] > 0
    assert len(binlog.stat(log).files) == 2


@pytest.mark.parametrize(
    ("keep", "left"), [("1.5K", 3), ("1KiB", 2), ("0.6k", 2), ("512b", 1), ("1P", 3)]
)  # 3 files of 512 bytes
def test_sizes_have_units(log: Path, keep: str, left: int) -> None:
    fill(log, *[[b"x" * 252]] * 3)
    assert main(["prune", "--keep-bytes", keep, str(log)]) == 0
    assert len(binlog.stat(log).files) == left


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--keep-bytes", "10GBB"],
        ["--keep-bytes", "-1"],
        ["--keep-bytes", "99999999P"],
        ["--keep-age", "1mo"],
        ["--keep-age", "99999999w"],
        ["--before", "2"],
        ["--before", "9:256"],
        ["--consumed"],  # without a group
        ["--consumed", "--ignore-groups"],
    ],
)
def test_invalid_arguments_exit_with_2(log: Path, wrong: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"], [b"two"])
    assert main(["prune", *wrong, str(log)]) == 2
    assert capfd.readouterr().err.startswith("binlog: ")
    assert len(binlog.stat(log).files) == 2


def test_a_missing_directory_exits_with_3(log: Path) -> None:
    assert main(["prune", "--keep-bytes", "0", str(log)]) == 3
    assert not log.exists()


def test_files_that_a_group_needs_stay(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"], [b"two"], [b"three"])
    with ConsumerGroup(log, "billing") as group:
        item = group.get()
        assert item is not None
        item.ack()
    for options, left in ((["--keep-bytes", "0"], [2, 3]), (["--consumed"], [2, 3])):
        assert main(["prune", *options, str(log)]) == 0
        assert [file.number for file in binlog.stat(log).files] == left
    assert main(["prune", "--keep-bytes", "0", "--ignore-groups", str(log)]) == 0
    assert [file.number for file in binlog.stat(log).files] == [3]


def test_files_that_the_seal_keeps_are_named_with_the_command_that_allows_to_remove_them(
    log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(log, [b"one"], [b"two"], [b"three"])
    begin_seal(log, SigningKey.generate("example.org/log"))
    assert main(["prune", "--keep-bytes", "0", str(log)]) == 0
    out, err = capfd.readouterr()
    assert out == "removed 0 files, 0 B on disk\n"
    assert err == "binlog: the seal keeps 2 more files; 'binlog seal prune' allows to remove them\n"
    assert main(["prune", "--keep-bytes", "0", "--ignore-seal", str(log)]) == 0
    assert capfd.readouterr().err == ""
