"""Kill: an import dies at each of its system calls, and is started again.  Each record is in the log once."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Writer
from binlog.moving import import_records
from binlog.moving.importing import importing
from stress.crash.preloaded.injector import Kind
from tests.support.logs import read_all
from tests.support.preloaded import kill_at_each_call
from tests.support.turns import in_turn

_JOURNAL = Path(__file__).parents[2] / "unit" / "moving" / "journal" / "entries.export"
_OTHERS = [b"of another writer"] * 2


def _import(log: Path, form: str, *inputs: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(importing, "_BATCH_RECORDS", 3)
        for each in inputs:
            import_records(log, each, form)


def _append_others(log: Path) -> None:
    with Writer(log) as writer:
        for record in _OTHERS:
            writer.append(record, mode=Mode.FLUSH)


def _lines(path: Path, numbers: range) -> Path:
    with path.open("a") as file:
        file.writelines(f"{number}\n" for number in numbers)
    return path


def _sweep(
    start: Path, log: Path, form: str, inputs: list[Path], expected: list[bytes], *, others: bool, step: int
) -> tuple[int, set[Kind]]:
    """Import, killed at each call, then again; return how many were killed, and the kinds of their calls."""
    died, kinds = 0, set()
    for run in kill_at_each_call(_import, start, log, form, *inputs, step=step):
        assert binlog.check(log) == [] if log.exists() and list(log.glob("*.dat")) else True
        if others:
            _append_others(log)
        _import(log, form, *inputs)
        found = read_all(log)
        assert [record for record in found if record not in _OTHERS] == expected, died
        assert found.count(_OTHERS[0]) == len(_OTHERS) * others
        assert binlog.check(log) == []
        died += run.killed
        kinds |= set(run.calls)
    return died, kinds


@pytest.mark.parametrize("others", in_turn([False, True]))
def test_json_lines_killed_at_each_call_are_imported_once(
    in_memory: Path, tmp_path: Path, others: bool, figure: Callable[[str], None]
) -> None:
    """others: another writer appends before the import is started again."""
    app = _lines(tmp_path / "app.log", range(7))
    expected = [b"%d" % number for number in range(7)]
    died, kinds = _sweep(
        in_memory / "start", in_memory / "log", "jsonl", [app], expected, others=others, step=1 if others else 2
    )
    assert died > 80
    assert {Kind.LOCK, Kind.WRITE, Kind.DATA_SYNC, Kind.LINK} <= kinds
    figure(f"an import of JSON lines killed at each call: {died} deaths")


@pytest.mark.parametrize("copied", in_turn([False, True]))
def test_a_rotated_file_killed_at_each_call_is_imported_once(
    in_memory: Path, tmp_path: Path, copied: bool, figure: Callable[[str], None]
) -> None:
    """copied: the file is copied and truncated, instead of renamed."""
    start = in_memory / "start"
    app, rotated = _lines(tmp_path / "app.log", range(4)), tmp_path / "app.log.1"
    _import(start, "jsonl", app)
    _lines(app, range(4, 8))
    if copied:
        shutil.copy(app, rotated)
        os.truncate(app, 0)
    else:
        app.rename(rotated)
    _lines(app, range(8, 12))
    expected = [b"%d" % number for number in range(12)]
    died, _ = _sweep(start, in_memory / "log", "jsonl", [rotated, app], expected, others=True, step=2)
    assert died > 50
    figure(f"an import of a rotated file killed at each call: {died} deaths")


def test_entries_of_the_journal_killed_at_each_call_are_imported_once(
    in_memory: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    _import(tmp_path / "whole", "journald", _JOURNAL)
    expected = read_all(tmp_path / "whole")
    assert len({json.loads(record)["__CURSOR"] for record in expected}) == 9
    died, _ = _sweep(in_memory / "start", in_memory / "log", "journald", [_JOURNAL], expected, others=True, step=2)
    assert died > 50
    figure(f"an import of the journal killed at each call: {died} deaths")


def _import_plainly(log: Path, form: str, *inputs: Path) -> None:
    """Import as a program does that stores its place after each append."""

    def append(work: importing._Import, producer: str, sequence: int) -> None:
        work._writer.append_many(work._taken())
        work._writer.append_idempotent([], producer=producer, sequence=sequence)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(importing._Import, "_append_once", append)
        _import(log, form, *inputs)


def test_the_sweep_finds_a_place_that_is_stored_after_the_append(in_memory: Path, tmp_path: Path) -> None:
    """A canary for the checks."""
    app, log = _lines(tmp_path / "app.log", range(7)), in_memory / "log"
    wrong = 0
    for _ in kill_at_each_call(_import_plainly, in_memory / "start", log, "jsonl", app, step=3):
        _import_plainly(log, "jsonl", app)
        wrong += len(read_all(log)) > 7
    assert wrong > 0
