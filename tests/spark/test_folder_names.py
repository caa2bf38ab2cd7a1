"""Folder names with characters that are special in URIs or globs: logs, outputs, bad records, checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Writer
from tests.spark.jobs.commands import Run
from tests.support.logs import read_all

pytestmark = pytest.mark.spark

NAMES = [
    "day=2026-11-26 50% Grüße 日本",
    "x*[y]{z}#1?%3D,;:'\"\\e",
]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.turn(turn)) for turn, name in enumerate(NAMES, 2)])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Make a folder with such a name, and a log in it."""
    folder = tmp_path / request.param
    folder.mkdir()
    with Writer(folder / "log") as writer:
        writer.append_many([b'{"n": 1}', b'{"n": 2}', b"no JSON"])
        writer.cutover()
    return folder


def _numbers(path: Path) -> list[object]:
    return sorted(_column(path, "data"))


def _column(path: Path, name: str) -> list[Any]:
    from pyarrow.parquet import ParquetFile

    return [value for each in path.glob("*.parquet") for value in ParquetFile(each).read()[name].to_pylist()]


def _contains_only(folder: Path, *names: str) -> None:
    """Return whether the parent has no other entry, for example under the decoded name."""
    assert sorted(each.name for each in folder.iterdir()) == sorted(names)
    assert [each.name for each in folder.parent.iterdir()] == [folder.name]


RECORDS = [b"no JSON", b'{"n": 1}', b'{"n": 2}']


def test_an_extract_goes_to_its_output(folder: Path, run: Run) -> None:
    out = folder / f"out {folder.name}"
    done = run("extract", folder / "log", "--out", out)
    assert (done.code, done.err) == (0, "")
    assert _numbers(out) == RECORDS
    done = run("extract", folder / "log", "--out", out, "--mode", "overwrite")
    assert (done.code, _numbers(out)) == (0, RECORDS)
    _contains_only(folder, "log", out.name)


def test_json_bad_records_and_another_log_go_to_their_outputs(folder: Path, run: Run) -> None:
    out, bad, copy = (folder / f"{what} {folder.name}" for what in ("out", "bad", "copy"))
    done = run("extract", folder / "log", "--out", out, "--to", "json", "--json", "--bad", bad)
    assert (done.code, done.err) == (0, "")
    found = [json.loads(line) for each in out.glob("*.json") for line in each.read_text().splitlines()]
    assert sorted(each["n"] for each in found) == [1, 2]
    assert len(list(bad.glob("*.json"))) == 1
    done = run("extract", folder / "log", "--out", copy, "--to", "binlog")
    assert (done.code, done.err) == (0, "")
    assert sorted(read_all(copy)) == sorted(RECORDS)
    _contains_only(folder, "log", out.name, bad.name, copy.name)


def test_a_stream_resumes(folder: Path, run: Run) -> None:
    out = folder / f"out {folder.name}"
    command = ("extract", folder / "log", "--out", out, "--incremental", "--json")
    assert run(*command).code == 0
    with Writer(folder / "log") as writer:
        writer.append(b'{"n": 3}')
    done = run(*command)
    assert (done.code, done.err) == (0, "")
    assert done.table["RECORDS"] == "1"
    assert sorted(n for n in _column(out, "n") if n is not None) == [1, 2, 3]
    _contains_only(folder, "log", out.name, f"{out.name}.checkpoint")


def test_verify_and_stats_find_the_log(folder: Path, run: Run) -> None:
    for name in ("verify", "stats"):
        done = run(name, folder / "log")
        assert (done.code, done.err) == (0, "")
        assert done.table["RECORDS"] == "3"
    assert binlog.check(folder / "log") == []
    _contains_only(folder, "log")


def test_a_file_uri_is_decoded(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "day=1 50%"
    folder.mkdir()
    with Writer(folder / "log") as writer:
        writer.append_many(RECORDS)
    out = folder / "out"
    from binlog.spark.jobs import Output

    assert Output(path=out.as_uri()).local() == out
    done = run("extract", (folder / "log").as_uri(), "--out", out.as_uri())
    assert (done.code, done.err, _numbers(out)) == (0, "", RECORDS)
    done = run("extract", folder / "log", "--out", (folder / "more").as_uri(), "--incremental", "--json")
    assert (done.code, done.err) == (0, "")
    _contains_only(folder, "log", "out", "more", "more.checkpoint")
