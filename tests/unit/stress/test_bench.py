"""The benchmark, too short for any figure: rows of each kind give results; `make install-test` runs all of them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from stress.bench.peers.floor import FLOORS
from stress.bench.rows.every import all_rows, chosen
from tests.support.checkout import ROOT

FUNCTION_LINES_MAX = 40


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stress.bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


# Waking: from the return of an append, which a reader may be faster than.  Memory: the use above an empty queue or a
# reader.  Idle workers may not wake in such a short time.
DIFFERENCES = (
    "waking", "paging-memory", "paging-many-memory", "group-killed", "group-wake", "group-idle", "group-memory",
)  # fmt: skip
WITH_WAITS = (
    "durable-", "waking", "commitlog-lookup", "group-1", "group-8", "group-killed", "group-wake", "group-opening",
    "group-delayed", "seal-8", "seal-latency", "seal-wait",
)  # fmt: skip
IN_SPARK = ("spark-count", "spark-write")  # spark-length runs like these
# Neither rows that differ only in the number of threads, nor those that need a long preparation.
OF_EACH_KIND = (
    "durable-2", "bulk", "flush", "stage", "waking",
    "commitlog-sync-1", "commitlog-async-batch", "commitlog-pooled-8", "commitlog-lookup",
    "journal-sync-8", "journal-later",
    "group-8", "group-flush", "group-batches", "group-killed", "group-wake", "group-herd", "group-backlog",
    "group-hot-key", "group-disk", "group-delayed", "group-producer",
    "seal-8", "seal-verify-500", "seal-latency", "seal-wait",
    "paging", "pagestore-put-8", "pagestore-get-1", "pagestore-both-1",
)  # fmt: skip


def rows_without_spark() -> list[str]:
    return [row.name for row in all_rows() if not row.name.startswith("spark")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(OF_EACH_KIND, id="of each kind", marks=pytest.mark.turn(2)),
        pytest.param(rows_without_spark(), id="ours", marks=pytest.mark.install),
        pytest.param(IN_SPARK, id="spark", marks=[pytest.mark.spark, pytest.mark.install]),
    ],
)
def test_rows_that_can_run_here_give_figures(tmp_path: Path, names: Sequence[str]) -> None:
    only = [argument for name in names for argument in ("--only", name)]
    written = tmp_path / "benchmarks.md"
    place = tmp_path / "place"
    place.mkdir()
    done = run(*only, "--seconds", "0.02", "--rounds", "1", "--write", str(written), "--directory", str(place))
    assert done.returncode == 0, done.stderr
    document = written.read_text()
    for row in chosen(names):
        (table,) = re.findall(rf"### {row.name}\n\n.*\n\n((?:\|.*\n)+)", document)
        heading, _, *lines = [[cell.strip() for cell in line.split(" | ")] for line in table.splitlines()]
        assert ("p50 µs" in heading) == row.name.startswith(WITH_WAITS)
        for contestant, (_, median, *_) in zip(row.contestants, lines, strict=True):
            absent = contestant.missing() is not None
            assert (median == "-") == absent, (row.name, contestant.name)
            if not absent and row.name not in DIFFERENCES:
                assert float(median.replace(",", "")) > 0, (row.name, contestant.name)
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_a_table_is_printed(tmp_path: Path) -> None:
    done = run("--only", "durable-1", "--seconds", "0.02", "--rounds", "2", "--directory", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "### durable-1\n\nDurable appends, one record a call, 1 process" in done.stdout
    assert re.search(r"^\| floor: classic order +\| +[\d,.]+ ", done.stdout, re.MULTILINE)
    assert "## Goals" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--directory", "/dev/shm"], "which never syncs anything; choose one on a disk"),
        (["--only", "durable-3"], "there is no row durable-3; known are durable-1, durable-2"),
        (["--directory", "/nonexistent"], "'/nonexistent' does not exist"),
    ],
)
def test_wrong_usage(arguments: list[str], text: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert done.stdout == ""


def test_each_floor_is_short() -> None:
    files = sorted(FLOORS.glob("*.[ch]"))
    assert len(files) > 5
    for path in files:
        bodies = re.findall(r"^\{\n(.*?)^\}", path.read_text(), re.DOTALL | re.MULTILINE)
        assert all(len(body.splitlines()) <= FUNCTION_LINES_MAX for body in bodies), path.name
