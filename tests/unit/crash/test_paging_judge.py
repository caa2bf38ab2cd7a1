"""The judge of queues, and of what is depaged, is believed by every state: so it is shown all that it looks for."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from binlog.errors import PoisonedError
from stress.crash.paging import depages, queues
from stress.crash.paging.actor import Kind, Who
from stress.crash.paging.judge import Expectation, compare, observe
from stress.crash.paging.refusals import Refusals, Used
from stress.paging.ledger import Identity, Mark, What

KINDS = {"queue": queues, "depaged": depages}
_PAGES, _JOURNAL = Used.PAGES, Used.JOURNAL
_ONE, _TWO, _THREE = (Identity(1, 0, number) for number in (1, 2, 3))


class Marks(list[Mark]):
    """Collects them."""

    def mark(self, mark: Mark) -> None:
        """Note one."""
        self.append(mark)

    def expectation(self) -> Expectation:
        """What is expected by them."""
        expected = Expectation()
        for mark in self:
            expected.add(mark)
        return expected


def _expected(*whats: tuple[What, Identity], tx: int = 0) -> Expectation:
    return Marks(Mark(what, 1, 0, tx, message) for what, message in whats).expectation()


def _put(*messages: Identity) -> list[tuple[What, Identity]]:
    return [(what, each) for each in messages for what in (What.PUT_TRIED, What.PUT_DONE, What.PUTS_SYNCED)]


@pytest.mark.parametrize("name", KINDS)
def test_a_sound_one_has_nothing_wrong(tmp_path: Path, name: str) -> None:
    marks = Marks()
    for life in (1, 2):
        KINDS[name].SCENARIOS["all"].live(tmp_path / "it", marks, life, "seed")
    expected = marks.expectation()
    assert len(expected.durable) > 10
    assert expected.gone
    kind: Kind = KINDS[name].AFTER.kind
    looked = kind.look(tmp_path / "it")
    assert kind.look(tmp_path / "it") == looked
    seen = observe(tmp_path / "it", kind)
    assert (seen.problems, seen.found) == ([], looked)
    assert compare(seen.found, expected, expected) == []


@pytest.mark.parametrize("name", KINDS)
def test_what_is_put_there_meanwhile_and_what_is_taken_away_is_told(tmp_path: Path, name: str) -> None:
    kind: Kind = KINDS[name].AFTER.kind
    actor = kind.open(tmp_path / "it", Who(marks := Marks(), 1, random.Random(1)))
    for _ in range(3):
        actor.put()
    actor.close()
    expected = marks.expectation()
    kind.put(tmp_path / "it", [Identity(9, 0, 1)])
    found = kind.drain(tmp_path / "it")
    assert [line.partition(" is ")[2] for line in compare(found, expected, expected)] == ["there, and nobody put it"]
    assert len(compare([], expected, expected)) == 3


def test_each_thing_that_is_wrong_is_told() -> None:
    sound = _expected(*_put(_ONE, _TWO))
    assert compare([_ONE, _TWO], sound, sound) == []
    for found in ([_ONE], [_ONE, _TWO, _TWO], [_TWO, _ONE], [_ONE, _TWO, _THREE]):
        assert len(compare(found, sound, sound)) == 1
    acked = _expected(*_put(_ONE), (What.ACK_TRIED, _ONE), (What.ACK_DONE, _ONE), (What.ACKS_SYNCED, _ONE))
    assert compare([], acked, acked) == []
    assert len(compare([_ONE], acked, acked)) == 1


def test_what_was_refused_is_not_there_and_what_was_not_acknowledged_is() -> None:
    refused = _expected((What.PUT_TRIED, _ONE), (What.PUT_REFUSED, _ONE))
    assert compare([], refused, refused) == []
    assert len(compare([_ONE], refused, refused)) == 1
    unacked = _expected(*_put(_ONE), (What.ACK_TRIED, _ONE), (What.ACK_REFUSED, _ONE))
    assert compare([_ONE], unacked, unacked) == []
    assert len(compare([], unacked, unacked)) == 1


def test_of_a_transaction_all_or_nothing_is_there() -> None:
    tried = _expected((What.TX_PUT, _ONE), (What.TX_PUT, _TWO), (What.TX_TRIED, _ONE), tx=1)
    assert compare([], tried, tried) == compare([_ONE, _TWO], tried, tried) == []
    assert len(compare([_ONE], tried, tried)) == 1
    done = _expected((What.TX_PUT, _ONE), (What.TX_TRIED, _ONE), (What.TX_DONE, _ONE), tx=1)
    assert len(compare([], done, done)) == 1
    dropped = _expected((What.TX_PUT, _ONE), (What.TX_TRIED, _ONE), (What.TX_DROPPED, _ONE), tx=1)
    assert compare([], dropped, dropped) == []
    assert len(compare([_ONE], dropped, dropped)) == 1


def test_what_is_opened_and_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"")
    for module in KINDS.values():
        assert observe(tmp_path / "it", module.AFTER.kind).problems


def _told(*calls: tuple[set[Used], bool]) -> list[str]:
    """What is wrong with calls, by what they use, and whether they were accepted."""
    wrong: list[str] = []
    refusals = Refusals(wrong)
    for used, accepted in calls:
        with suppress(PoisonedError), refusals.using(*used):
            if not accepted:
                raise PoisonedError("a sync failed")
    return wrong


def test_a_failure_that_was_forgotten_is_told_and_one_of_something_else_is_not() -> None:
    both = {_PAGES, _JOURNAL}
    for used in ({_PAGES}, {_JOURNAL}, both):
        assert _told((used, True), (used, False), (used, False)) == []
        assert len(_told((used, False), (used, True))) == 1
    assert _told(({_PAGES}, False), ({_JOURNAL}, True)) == []
    assert _told((both, False), ({_JOURNAL}, True), (both, False), ({_JOURNAL}, True)) == []
    assert len(_told((both, False), ({_JOURNAL}, True), ({_PAGES}, True))) == 1
    assert len(_told((both, False), ({_JOURNAL}, True), ({_JOURNAL}, False))) == 0
    assert len(_told(({_PAGES}, False), ({_JOURNAL}, False), (both, True))) == 1


def test_what_threads_depage_is_there_once(tmp_path: Path) -> None:
    marks = Marks()
    for life in (1, 2):
        depages.FAULTED["threads"].live(tmp_path / "it", marks, life, "seed")
    expected = marks.expectation()
    assert len(expected.durable) > 10
    assert [each for each in marks if each.what is What.MESSAGE_SYNCED]
    assert compare(depages.DEPAGED.look(tmp_path / "it"), expected, expected) == []
