"""The journal's checks find each violation that they are made for."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.format.journal.record import Kind
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from stress.crash.marks import values_of
from stress.crash.records import identity_of, record_bytes
from stress.crash.system import Crash, ProcessContext
from stress.crash.systems.journal.actor import JournalActor
from stress.crash.systems.journal.expectation import Expectation, compare
from stress.crash.systems.journal.marks import (
    LoadedState,
    Mark,
    MarkKind,
    Operation,
    TransactionCalls,
    mark_of,
    plain_mark,
    user_type_of,
)
from stress.crash.systems.journal.system import OPTIONS, JournalSystem, variant_in
from tests.support.crash_harness import Marks
from tests.support.crash_harness import verdict as verdict_of

NATIVE = OPTIONS["native"]


def filled(path: Path, work: Callable[[JournalActor], object]) -> Marks:
    """Work on a journal and close it; return the marks."""
    marks = Marks()
    actor = JournalSystem().open(path, ProcessContext(marks, 0, random.Random(1)), "native")
    work(actor)
    actor.close()
    return marks


def of_everything(actor: JournalActor) -> None:
    first, second = actor.add_one(Sync.WAIT), actor.add_one(Sync.FUTURE)
    actor.call(Kind.UPDATE, Sync.LATER, record_id=first)
    actor.await_futures()
    actor.call(Kind.DELETE, Sync.WAIT, record_id=second)
    tx_id = actor.new_id()
    actor.call(Kind.ADD_TX, Sync.LATER, tx_id=tx_id, record_id=tx_id)
    actor.call(Kind.UPDATE_TX, Sync.LATER, tx_id=tx_id, record_id=first)
    actor.call(Kind.COMMIT, Sync.WAIT, tx_id=tx_id)
    tx_id = actor.new_id()
    actor.call(Kind.ADD_TX, Sync.LATER, tx_id=tx_id, record_id=tx_id)
    actor.call(Kind.DELETE_TX, Sync.LATER, tx_id=tx_id, record_id=first)
    actor.prepare(tx_id)
    left = actor.new_id()
    actor.call(Kind.ADD_TX, Sync.LATER, tx_id=left, record_id=left)


def verdict(path: Path, marks: list[tuple[int, ...]]) -> list[str]:
    return verdict_of(JournalSystem(), path, marks, Crash.POWER)


def test_an_intact_journal_has_no_violation(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert verdict(path, filled(path, of_everything)) == []


def test_no_journal_has_no_violation_if_nothing_was_promised(tmp_path: Path) -> None:
    assert verdict(tmp_path / "journal", []) == []


def test_a_missing_journal_is_found(tmp_path: Path) -> None:
    wrong = verdict(tmp_path / "other", filled(tmp_path / "journal", of_everything))
    assert any("record_id=1) is promised, but missing" in line for line in wrong)
    assert any("is prepared, but not reported as prepared" in line for line in wrong)
    assert any("was not ended, but not reported as failed" in line for line in wrong)


def test_an_untried_record_and_a_foreign_one_are_found(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    filled(path, of_everything)
    with Journal(path, NATIVE) as journal:
        journal.load()
        journal.append_add(999, 1, b"no actor's")
    wrong = verdict(path, [])
    assert any("but was not tried" in line for line in wrong)
    assert any("was never appended" in line for line in wrong)


def test_a_left_over_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    marks = filled(path, of_everything)
    (path / "left.over").write_bytes(b"")
    assert "left.over exists after a load" in verdict(path, marks)


def test_damage_that_no_crash_can_leave_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    marks = filled(path, lambda actor: [actor.append_one() for _ in range(3)])
    (file,) = [each for each in path.glob("*.jnl") if b"0:1:" in each.read_bytes()]
    data = bytearray(file.read_bytes())
    data[data.index(b"0:1:")] ^= 1
    file.write_bytes(data)
    wrong = verdict(path, marks)
    assert any(line == "damage is reported, but there is none: ['gap']" for line in wrong)
    assert any("number=1" in line and "is promised, but missing" in line for line in wrong)


_FAILED = {7: TransactionCalls((), None, frozenset())}


def test_a_rollback_that_a_load_was_writing_may_be_half_there() -> None:
    """A load rolls back a transaction without an end; a sector of that record may be lost."""
    tried, state = operations((Kind.ADD_TX, 7, 1)), LoadedState(problems=["tail"], failed=_FAILED)
    assert violations(state, tried, 0) == []
    ended = operations((Kind.ADD_TX, 7, 1), (Kind.ROLLBACK, 7, 0))
    assert any("damage is reported" in line for line in violations(LoadedState(problems=["tail"]), ended, 1))


def operations(*all_: tuple[Kind, int, int]) -> list[Operation]:
    return [Operation(0, number, *each) for number, each in enumerate(all_)]


def loaded(*records: int, update: int = -1) -> LoadedState:
    """Return the result of a load; each record has the number of its call, and an id that is one more."""
    return LoadedState(
        records={(0, number): (1 if number == update else number + 1, number == update) for number in records}
    )


def violations(state: LoadedState, tried: list[Operation], durable: int, crash: Crash = Crash.POWER) -> list[str]:
    expected = Expectation()
    for operation in tried:
        expected.add(values_of(Mark(MarkKind.TRIED, operation)))
    if durable >= 0:
        expected.add(values_of(Mark(MarkKind.DURABLE, Operation(0, durable, Kind.ADD))))
    return compare(state, expected, expected, crash)


TRANSACTION = operations((Kind.ADD_TX, 9, 1), (Kind.ADD_TX, 9, 2), (Kind.COMMIT, 9, 0))


@pytest.mark.parametrize(
    ("state", "durable", "words"),
    [
        (loaded(0), -1, "the transaction 9 took effect in part"),
        (loaded(), 2, "is promised, but missing"),
        (LoadedState(failed={9: TransactionCalls((), None, frozenset())}), 2, "is reported as failed, but has ended"),
        (
            LoadedState(prepared={9: TransactionCalls((), None, frozenset())}),
            -1,
            "is reported as prepared, but may not be",
        ),
        (LoadedState(failed={7: TransactionCalls((), None, frozenset())}), -1, "7 is reported, but was not tried"),
    ],
)
def test_a_transaction_takes_effect_as_a_whole_or_not_at_all(state: LoadedState, durable: int, words: str) -> None:
    assert any(words in line for line in violations(state, TRANSACTION, durable))
    assert violations(loaded(0, 1), TRANSACTION, 2) == []
    assert violations(loaded(), TRANSACTION, 1) == []


def test_a_rolled_back_record_must_not_exist() -> None:
    tried = operations((Kind.ADD_TX, 9, 1), (Kind.ROLLBACK, 9, 0))
    assert any("exists, but must not" in line for line in violations(loaded(0), tried, -1))


def test_a_deleted_record_must_not_reappear() -> None:
    tried = operations((Kind.ADD, 0, 1), (Kind.DELETE, 0, 1))
    assert violations(loaded(0), tried, 1) == [f"the record 1 exists, but {tried[1]} has deleted it"]
    assert violations(loaded(0), tried, 0) == violations(loaded(), tried, 0) == []


def test_missing_and_misplaced_updates_are_found() -> None:
    tried = operations((Kind.ADD, 0, 1), (Kind.UPDATE, 0, 1), (Kind.ADD, 0, 3))
    assert any("number=1" in line for line in violations(loaded(0), tried, 1))
    assert violations(loaded(1, 0, update=1), tried, 1) == ["the updates of record 1 are not in order"]


def test_after_a_mere_death_a_record_implies_all_before_it() -> None:
    tried = operations((Kind.ADD, 0, 1), (Kind.ADD, 0, 2))
    assert violations(loaded(1), tried, -1) == []
    assert any("number=0" in line for line in violations(loaded(1), tried, -1, Crash.KILL))


def test_an_id_must_not_be_reused() -> None:
    state = LoadedState(id_max=1, keeps_ids=True)
    assert violations(state, operations((Kind.ADD, 0, 1), (Kind.DELETE, 0, 1)), 1) == []
    wrong = violations(state, operations((Kind.ADD, 0, 2), (Kind.DELETE, 0, 2)), 1)
    assert wrong == ["the largest id is reported as 1, but 2 was used"]


def test_a_record_that_a_load_did_not_return_must_not_reappear() -> None:
    expected = Expectation()
    (operation,) = operations((Kind.ADD, 0, 1))
    for mark in (Mark(MarkKind.TRIED, operation), plain_mark(MarkKind.LOADING), plain_mark(MarkKind.LOADED)):
        expected.add(values_of(mark))
    assert compare(loaded(0), expected, expected) == [f"{operation} exists, but must not"]
    assert compare(loaded(), expected, expected) == []


def test_a_loaded_record_must_stay_and_failed_transactions_are_reported_once() -> None:
    expected = Expectation()
    add, left = operations((Kind.ADD, 0, 1), (Kind.ADD_TX, 9, 2))
    state = loaded(0)
    state.failed[9] = TransactionCalls((left.identity,), None, frozenset((2,)))
    for mark in (Mark(MarkKind.TRIED, add), Mark(MarkKind.TRIED, left), plain_mark(MarkKind.LOADING), *state.marks()):
        expected.add(values_of(mark))
    assert compare(loaded(0), expected, expected) == []
    assert compare(loaded(), expected, expected) == [f"{add} is promised, but missing"]
    assert any("was reported before" in line for line in compare(state, expected, expected))


@pytest.mark.parametrize(
    "mark", [Mark(MarkKind.TRIED, Operation(99, 1 << 20, Kind.COMMIT, 7, 8)), plain_mark(MarkKind.LOADED)]
)
def test_marks_survive_the_trace(mark: Mark) -> None:
    assert mark_of(values_of(mark)) == mark


def test_bodies_identify_their_calls_and_file_sizes_the_variant(tmp_path: Path) -> None:
    assert identity_of(record_bytes(3, 5)) == (3, 5)
    assert identity_of(record_bytes(3, 5)[:-1] + b"!") is None
    assert identity_of(b"no one") is None
    assert 0 <= user_type_of((3, 1000)) <= 255
    for name, options in OPTIONS.items():
        with Journal(tmp_path / name, options) as journal:
            journal.load()
        assert variant_in(tmp_path / name) == options
