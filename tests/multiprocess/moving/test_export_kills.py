"""Kill: an export dies at each of its system calls.  Only a complete file has the name."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog.moving import export_records
from tests.support.preloaded import kill_at_each_call
from tests.support.turns import in_turn

COUNT = 2000


def _export(folder: Path, form: str) -> None:
    export_records(folder / "log", folder / "out", form)


def _count(path: Path, form: str) -> int:
    if form == "jsonl":
        return path.read_text().count("\n")
    with sqlite3.connect(path) as database:
        count: int = database.execute("SELECT count(*) FROM records").fetchone()[0]
    database.close()
    return count


@pytest.mark.parametrize("form", in_turn(["jsonl", "sqlite"]))
def test_an_export_killed_at_each_call_leaves_a_complete_file_or_none(
    in_memory: Path, form: str, figure: Callable[[str], None]
) -> None:
    start, folder = in_memory / "start", in_memory / "folder"
    start.mkdir()
    with binlog.Writer(start / "log") as writer:
        for _ in range(4):
            writer.append_many([b'{"body":"%d"}' % number for number in range(COUNT // 4)])
    died = incomplete = 0
    for run in kill_at_each_call(_export, start, folder, form, step=2):
        out = folder / "out"
        if out.exists():
            assert _count(out, form) == COUNT
        incomplete += (folder / ".out.partial").exists()
        _export(folder, form)
        assert _count(out, form) == COUNT
        assert sorted(path.name for path in folder.iterdir()) == ["log", "out"]
        died += run.killed
    assert died > 10
    assert incomplete > 0
    figure(f"an export to {form} killed at each call: {died} deaths")
