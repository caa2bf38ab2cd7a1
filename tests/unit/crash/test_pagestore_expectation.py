"""The page store's checks find each violation that they are made for."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from binlog.pagestore import PageStore
from stress.crash.system import Crash, ProcessContext
from stress.crash.systems.messages.marks import Identity, Mark, MarkKind, message_of
from stress.crash.systems.pagestore.actor import (
    QUEUES,
    SCENARIOS,
    backup_name,
    backups_in,
    open_small,
    put_into,
    queues_of,
)
from stress.crash.systems.pagestore.system import Observation, PageStoreSystem, read_store
from tests.support.crash_harness import Marks, verdict

SYSTEM = PageStoreSystem()


def _lived(path: Path, scenario: str) -> Marks:
    """Run a scenario in two processes, which leave some messages and, of prepared transactions, at least one."""
    for seed in range(100):
        marks = Marks()
        for number in (1, 2):
            process = ProcessContext(marks, number, random.Random(f"{seed}/{number}"))
            SYSTEM.run_scenario(path, SCENARIOS[scenario], process, "")
        messages, prepared = read_store(path)
        if any(messages.values()) and (prepared or scenario != "prepared"):
            return marks
        shutil.rmtree(path)
    raise AssertionError("no seed leaves anything")


def _wrong(path: Path, marks: Marks) -> list[str]:
    return verdict(SYSTEM, path, marks, Crash.POWER)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.slow
def test_an_intact_state_has_no_violation(tmp_path: Path, scenario: str) -> None:
    marks = _lived(tmp_path / "it", scenario)
    assert SYSTEM.expect(marks).durable > 1
    assert _wrong(tmp_path / "it", marks) == []


def _put_one(path: Path) -> None:
    with open_small(path) as store, store.transaction() as transaction:
        mine = Identity(1, 0, 77)
        put_into(transaction, mine, message_of(mine))


def _take_one(path: Path) -> None:
    with open_small(path) as store, store.transaction() as transaction:
        assert any(transaction.get(queue) for queue in store.queues)


def _end_prepared(path: Path) -> None:
    with open_small(path) as store:
        store.rollback_prepared(store.prepared[0].xid)


@pytest.mark.parametrize(("scenario", "change"), [("puts", _put_one), ("puts", _take_one), ("prepared", _end_prepared)])
def test_changes_from_outside_are_found(tmp_path: Path, scenario: str, change: object) -> None:
    path = tmp_path / "it"
    marks = _lived(path, scenario)
    assert callable(change)
    change(path)
    assert any("is none of the" in line for line in _wrong(path, marks))


@pytest.mark.slow
def test_a_backup_with_other_content_or_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "it"
    marks = _lived(path, "backups")
    (number, backup), *_ = backups_in(path).items()
    _put_one(backup)
    assert [line for line in _wrong(shutil.copytree(path, tmp_path / "copy"), marks)
            if line.startswith(f"the backup {number} has")]  # fmt: skip
    pages = bytearray((backup / "page.db").read_bytes())
    pages[2048 + 100] ^= 1
    (backup / "page.db").write_bytes(pages)
    assert [line for line in _wrong(path, marks) if line.startswith(f"{backup.name}: ")]


@pytest.mark.slow
def test_a_finished_backup_that_is_missing_is_found(tmp_path: Path) -> None:
    path = tmp_path / "it"
    marks = _lived(path, "backups")
    number, backup = max(backups_in(path).items())
    shutil.rmtree(backup)
    assert _wrong(path, marks) == [f"the backup {number} was finished, but is no store"]


def test_a_backup_that_was_not_finished_may_be_none_and_may_not_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "it"
    one = Identity(1, 0, 1)
    marks = Marks(
        Mark(kind, 1, 0, tx, message)
        for kind, tx, message in (
            (MarkKind.OPENED, 0, Identity(0, 0, 0)),
            (MarkKind.TX_PUT, 1, one),
            (MarkKind.TX_TRIED, 1, Identity(0, 0, 0)),
            (MarkKind.TX_DONE, 1, one),
            (MarkKind.BACKUP_TRIED, 1, Identity(0, 0, 9)),
        )
    )
    with open_small(path) as store, store.transaction() as transaction:
        put_into(transaction, one, message_of(one))
    backup = path / backup_name(9)
    backup.mkdir()
    assert _wrong(shutil.copytree(path, tmp_path / "copy"), marks) == []
    (backup / "page.db.backup").write_bytes(b"")
    assert _wrong(shutil.copytree(path, tmp_path / "another"), marks) == []
    (backup / "page.db.backup").unlink()
    PageStore(backup).close()
    assert any(line.startswith("the backup 9 has") for line in _wrong(path, marks))


def test_a_refused_transaction_must_have_no_effect() -> None:
    one = Identity(1, 0, 1)
    kinds = (MarkKind.OPENED, MarkKind.TX_PUT, MarkKind.TX_TRIED)
    marks = Marks(Mark(kind, 1, 0, 1, one if kind is MarkKind.TX_PUT else Identity(0, 0, 0)) for kind in kinds)
    there = Observation(readable=({queue: [one] if queue in queues_of(one) else [] for queue in QUEUES}, []))
    expected = SYSTEM.expect(marks)
    assert SYSTEM.compare(there, expected, expected) == []
    marks.mark(Mark(MarkKind.TX_DROPPED, 1, 0, 1, Identity(0, 0, 0)))
    expected = SYSTEM.expect(marks)
    assert len(SYSTEM.compare(there, expected, expected)) == 1


def test_a_shared_message_that_one_queue_lacks_is_found(tmp_path: Path) -> None:
    path, shared = tmp_path / "it", Identity(1, 0, 5)
    marks = Marks(
        Mark(kind, 1, 0, 1, message)
        for kind, message in (
            (MarkKind.OPENED, shared),
            (MarkKind.TX_PUT, shared),
            (MarkKind.TX_TRIED, Identity(0, 0, 0)),
        )
    )
    marks += Marks([Mark(MarkKind.TX_DONE, 1, 0, 1, shared), Mark(MarkKind.PUTS_SYNCED, 1, 0, 1, shared)])
    with open_small(path) as store, store.transaction() as transaction:
        put_into(transaction, shared, message_of(shared))
    assert _wrong(shutil.copytree(path, tmp_path / "copy"), marks) == []
    with open_small(path) as store, store.transaction() as transaction:
        transaction.get(QUEUES[1])
    assert len(_wrong(path, marks)) == 1
