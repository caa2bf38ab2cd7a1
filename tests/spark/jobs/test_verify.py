"""`binlog spark verify` finds the same problems as `binlog check`; `binlog spark stats` counts correctly."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from tests.spark.jobs.commands import Run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def copy(log: Path, tmp_path: Path) -> Path:
    """A copy of five files of 50 records each, to damage."""
    with Writer(log) as writer:
        for first in range(0, 250, 50):
            if first:
                writer.cutover()
            writer.append_many([b"record %d" % number for number in range(first, first + 50)])
    shutil.copytree(log, tmp_path / "copy")
    return tmp_path / "copy"


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_a_sound_log(copy: Path, log: Path, run: Run) -> None:
    done = run("verify", log, copy)
    assert (done.code, done.err) == (0, "")
    assert (done.table["PROBLEMS"], done.table["FILES"], done.table["RECORDS"]) == ("0", "10", "500")
    assert run("verify", "--json", copy).out == ""


@pytest.mark.parametrize(
    ("harm", "kinds"),
    [
        (lambda copy: flip(copy / "00000002.dat", 400), {(2, "index-crc")}),
        (lambda copy: flip(copy / "00000002.dat", 0), {(2, "header-length")}),
        (lambda copy: (copy / "00000003.dat").unlink(), {(2, "missing-next")}),
        (lambda copy: (copy / "00000005.dat").unlink(), {(4, "missing-next")}),
        (lambda copy: flip(copy / "00000004.idx", 12), {(4, "index")}),
    ],
)
def test_damage_is_a_row_and_exits_with_1(
    copy: Path, run: Run, harm: Callable[[Path], None], kinds: set[tuple[int, str]]
) -> None:
    harm(copy)
    expected = binlog.check(copy)
    done = run("verify", "--json", copy)
    found = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 1
    assert [(each["start"], each["end"], each["kind"], each["text"]) for each in found] == [
        (problem.offset, problem.end, problem.rule, problem.text) for problem in expected
    ]
    assert kinds <= {(each["file"], each["kind"]) for each in found}
    assert {each["directory"] for each in found} == {str(copy)}
    table = run("verify", copy)
    assert (table.code, table.table["PROBLEMS"]) == (1, str(len(expected)))
    assert [row[:3] for row in table.rows("DIRECTORY")] == [
        [str(copy), str(each["file"]), str(each["start"])] for each in found
    ]


def test_a_missing_log_exits_with_3(tmp_path: Path, run: Run) -> None:
    assert run("verify", tmp_path / "none").code == 3
    assert run("stats", tmp_path / "none").code == 3


def test_stats(copy: Path, log: Path, run: Run) -> None:
    totals = json.loads(run("stats", "--json", log).out)
    files = binlog.stat(log).files
    assert (totals["records"], totals["bytes"]) == (250, sum(file.tail - file.first_offset for file in files))
    assert [(file["directory"], file["number"], file["records"], file["bytes"]) for file in totals["files"]] == [
        (str(log), file.number, 50, file.tail - file.first_offset) for file in files
    ]
    assert sum(hour["records"] for hour in totals["hours"]) == 250
    assert sum(hour["bytes"] for hour in totals["hours"]) == totals["bytes"]
    done = run("stats", log, copy)
    assert (done.code, done.table["RECORDS"]) == (0, "500")
    assert len(done.rows("DIRECTORY")) == 10
    assert 1 <= len(done.rows("HOUR")) <= 2
    assert run("stats", log, "--until", "2020-01-01").table["RECORDS"] == "0"


def test_stats_of_a_damaged_log_name_the_damage(copy: Path, run: Run) -> None:
    flip(copy / "00000002.dat", 400)
    done = run("stats", copy)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "00000002.dat at offset 256" in done.err
