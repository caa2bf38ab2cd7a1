"""The checks of sealed logs find each violation that they are made for."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.seal import hash_store, keys
from stress.crash.marks import Values
from stress.crash.system import Crash, ProcessContext
from stress.crash.systems.log.actor import Mark as LogMark
from stress.crash.systems.log.actor import MarkKind as LogMarkKind
from stress.crash.systems.seal.actor import ANCHOR, LOG, SCENARIOS, SealActor
from stress.crash.systems.seal.marks import Mark, MarkKind, is_of_seal, mark_of
from stress.crash.systems.seal.system import SealSystem
from tests.support.crash_harness import Marks, verdict

SYSTEM = SealSystem()


@pytest.fixture(autouse=True)
def _files_of_the_usual_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the changes of the system after a test."""
    monkeypatch.setattr(hash_store, "FILE_HASHES", hash_store.FILE_HASHES)
    monkeypatch.setattr(keys, "is_signed", keys.is_signed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sealed"


@pytest.fixture
def marks(path: Path) -> Marks:
    """The marks of a process that has sealed two records, anchored the checkpoint, and closed."""
    found = Marks()
    _run(path, found, SCENARIOS["begun"].chosen(random.Random(1)))
    _run(path, found, [SealActor.append_one, SealActor.seal_and_anchor, SealActor.see_checkpoint], number=2)
    return found


def _run(path: Path, marks: Marks, steps: list[Callable[[SealActor], None]], number: int = 1) -> None:
    actor = SealActor(path, ProcessContext(marks, number, random.Random(number)))
    for step in steps:
        step(actor)
    actor.close()


def _wrong(path: Path, marks: list[Values]) -> list[str]:
    return verdict(SYSTEM, path, marks, Crash.POWER)


def _heads(marks: Marks, kind: MarkKind) -> list[tuple[int, tuple[int, ...]]]:
    found = [mark_of(each) for each in marks if is_of_seal(each)]
    return [(head.size, head.root) for of_kind, head in found if of_kind is kind]


def test_an_intact_log_has_no_violation(path: Path, marks: Marks) -> None:
    assert [size for size, _ in _heads(marks, MarkKind.SEALED)] == [1, 2]
    assert _heads(marks, MarkKind.ANCHORED) == _heads(marks, MarkKind.SEALED)
    assert _heads(marks, MarkKind.SEEN) == _heads(marks, MarkKind.SEALED)[-1:]
    assert _wrong(path, marks) == []


def test_no_log_has_no_violation_if_nothing_was_promised(path: Path) -> None:
    assert _wrong(path, [(int(LogMarkKind.TRIED), 1, 0, 1, 0, 0, 0, 0)]) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_scenario_has_no_violation(path: Path, name: str) -> None:
    marks = Marks()
    _run(path, marks, [*SCENARIOS[name].chosen(random.Random(f"{name}/1"))])
    assert _wrong(path, marks) == []


def test_two_roots_for_one_size_are_found(path: Path, marks: Marks) -> None:
    marks.mark(Mark(MarkKind.SEEN, 2, (1, 2, 3, 4)))
    assert "two roots for one size" in _wrong(path, marks)[0]


def test_a_smaller_checkpoint_after_a_larger_one_is_found(path: Path, marks: Marks) -> None:
    marks.mark(Mark(MarkKind.SEALED, *_heads(marks, MarkKind.SEALED)[0]))
    assert "was returned after one of 2 records" in _wrong(path, marks)[0]


def test_a_checkpoint_that_the_records_do_not_give_is_found(path: Path) -> None:
    marks = Marks([Mark(MarkKind.SEEN, 1, (1, 2, 3, 4)), Mark(MarkKind.SEEN, 5, (1, 2, 3, 4))])
    different, missing, behind = _wrong(path, marks)
    assert "but these records have 1 records" in different
    assert "a checkpoint has 5 records" in missing
    assert "the sealer continued from 0" in behind


def test_a_lost_record_is_found(path: Path, marks: Marks) -> None:
    marks.mark(LogMark(LogMarkKind.DURABLE, 7, 3, 1))
    assert _wrong(path, marks) == ["record 3 of writer 7 was acknowledged, but is missing"]


def test_a_checkpoint_that_the_anchor_lost_is_found(path: Path, marks: Marks) -> None:
    (file,) = (path / ANCHOR).iterdir()
    file.write_bytes(b"")
    assert [line[:31] for line in _wrong(path, marks)] == ["the anchor had a checkpoint of "] * 2


def test_a_state_that_was_put_back_is_found(path: Path, tmp_path: Path) -> None:
    marks = Marks()
    _run(path, marks, [SealActor.append_one, SealActor.seal])
    shutil.copytree(path / LOG / "seal", tmp_path / "older")
    _run(path, marks, [SealActor.append_one, SealActor.seal], number=2)
    shutil.rmtree(path / LOG / "seal")
    shutil.copytree(tmp_path / "older", path / LOG / "seal")
    assert _wrong(path, marks) == ["a checkpoint has 2 records, but the sealer continued from 1"]


def test_a_visible_checkpoint_that_the_state_does_not_have_is_found(path: Path, marks: Marks) -> None:
    state = path / LOG / "seal" / "state"
    older = state.read_bytes()
    _run(path, marks, [SealActor.append_one, SealActor.seal], number=3)
    state.write_bytes(older)
    assert "the sealer's state has 2 records, and 3 records were sealed" in "".join(_wrong(path, marks))


def test_a_changed_record_is_found(path: Path, marks: Marks) -> None:
    data = path / LOG / "00000001.dat"
    data.write_bytes(data.read_bytes().replace(b"2:0:2:0:", b"2:0:2:1:", 1))
    assert "SealError" in "".join(_wrong(path, marks))
