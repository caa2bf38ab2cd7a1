"""The checks of queues and depaged pages find each violation that they are made for."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from binlog.errors import PoisonedError
from stress.crash.marks import values_of
from stress.crash.system import Crash, ProcessContext
from stress.crash.systems.messages.depage import Component, DepageSystem, PoisonTracker
from stress.crash.systems.messages.marks import Identity, Mark, MarkKind, mark_of
from stress.crash.systems.messages.queue import QueueSystem
from stress.crash.systems.messages.system import Expectation, MessagesSystem, Observation
from tests.support.crash_harness import Marks

SYSTEMS: dict[str, MessagesSystem] = {"queue": QueueSystem(), "depaged": DepageSystem()}
_PAGES, _JOURNAL = Component.PAGES, Component.JOURNAL
_ONE, _TWO, _THREE = (Identity(1, 0, number) for number in (1, 2, 3))
_NONE = Identity(0, 0, 0)


def _expected(*calls: tuple[MarkKind, Identity], tx: int = 0, process: int = 1) -> Expectation:
    return QueueSystem().expect(values_of(Mark(kind, process, 0, tx, message)) for kind, message in calls)


def _lived(system: MessagesSystem, path: Path, scenario: str) -> Marks:
    """Run a scenario in two processes, one after the other."""
    marks = Marks()
    for number in (1, 2):
        process = ProcessContext(marks, number, random.Random(f"seed/{number}"))
        system.run_scenario(path, system.scenarios[scenario], process, "")
    return marks


def compare(found: list[Identity], least: Expectation, most: Expectation) -> list[str]:
    return QueueSystem().compare(Observation(found=found), least, most)


def _put(*messages: Identity) -> list[tuple[MarkKind, Identity]]:
    return [(kind, each) for each in messages for kind in (MarkKind.PUT_TRIED, MarkKind.PUT_DONE, MarkKind.PUTS_SYNCED)]


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.slow
def test_an_intact_state_has_no_violation(tmp_path: Path, name: str) -> None:
    system = SYSTEMS[name]
    expected = system.expect(_lived(system, tmp_path / "it", "all"))
    assert len(expected.durable) > 10
    assert expected.gone
    looked = system.observe(tmp_path / "it", stays=True)
    seen = system.observe(tmp_path / "it")
    assert (seen.problems, looked.problems, seen.found) == ([], [], looked.found)
    assert system.compare(seen, expected, expected) == system.check_after_power_cut(looked, seen) == []
    assert len(system.check_after_power_cut(looked, system.observe(tmp_path / "it"))) == bool(looked.found)


@pytest.mark.parametrize("name", SYSTEMS)
def test_added_and_removed_messages_are_found(tmp_path: Path, name: str) -> None:
    system = SYSTEMS[name]
    actor = system.open(tmp_path / "it", ProcessContext(marks := Marks(), 1, random.Random(1)), "")
    for _ in range(3):
        actor.append_one()
    actor.close()
    expected = system.expect(marks)
    system.put(tmp_path / "it", [Identity(9, 0, 1)])
    found = system.drain(tmp_path / "it")
    assert [line.partition(" exists, ")[2] for line in compare(found, expected, expected)] == ["but was never put"]
    assert len(compare([], expected, expected)) == 3


def test_all_that_is_in_a_queue_is_seen(tmp_path: Path) -> None:
    system = QueueSystem()
    system.put(tmp_path, [_ONE, _TWO])
    seen = system.observe(tmp_path)
    assert (seen.found, seen.problems) == ([_ONE, _TWO], [])


def test_an_acknowledgement_is_durable_after_its_process_has_synced() -> None:
    put = ((MarkKind.PUT_TRIED, _ONE), (MarkKind.PUT_DONE, _ONE))
    acked = (*put, (MarkKind.ACK_TRIED, _ONE), (MarkKind.ACK_DONE, _ONE))
    for marks, wrong in ((put, 0), (acked, 0), ((*acked, (MarkKind.ACKS_SYNCED, _NONE)), 1)):
        expected = _expected(*marks)
        assert len(compare([_ONE], expected, expected)) == wrong
    expected = _expected(*acked)
    # a power cut before may have lost the acknowledgement
    expected.add(values_of(Mark(MarkKind.ACKS_SYNCED, 2, 0, 0, _NONE)))
    assert compare([_ONE], expected, expected) == compare([], expected, expected) == []
    for kind in (MarkKind.ACK_TRIED, MarkKind.ACK_DONE, MarkKind.ACKS_SYNCED):
        expected.add(values_of(Mark(kind, 2, 0, 0, _ONE)))
    assert len(compare([_ONE], expected, expected)) == 1
    died = _expected(*acked)
    died.died()
    assert len(compare([_ONE], died, died)) == 1


def test_each_violation_is_found() -> None:
    intact = _expected(*_put(_ONE, _TWO))
    assert compare([_ONE, _TWO], intact, intact) == []
    for found in ([_ONE], [_ONE, _TWO, _TWO], [_TWO, _ONE], [_ONE, _TWO, _THREE]):
        assert len(compare(found, intact, intact)) == 1
    acked = _expected(*_put(_ONE), (MarkKind.ACK_TRIED, _ONE), (MarkKind.ACK_DONE, _ONE), (MarkKind.ACKS_SYNCED, _ONE))
    assert compare([], acked, acked) == []
    assert len(compare([_ONE], acked, acked)) == 1


def test_a_refused_message_does_not_exist_and_an_unacknowledged_one_does() -> None:
    refused = _expected((MarkKind.PUT_TRIED, _ONE), (MarkKind.PUT_REFUSED, _ONE))
    assert compare([], refused, refused) == []
    assert len(compare([_ONE], refused, refused)) == 1
    unacked = _expected(*_put(_ONE), (MarkKind.ACK_TRIED, _ONE), (MarkKind.ACK_REFUSED, _ONE))
    assert compare([_ONE], unacked, unacked) == []
    assert len(compare([], unacked, unacked)) == 1


def test_a_transaction_takes_effect_as_a_whole_or_not_at_all() -> None:
    tried = _expected((MarkKind.TX_PUT, _ONE), (MarkKind.TX_PUT, _TWO), (MarkKind.TX_TRIED, _ONE), tx=1)
    assert compare([], tried, tried) == compare([_ONE, _TWO], tried, tried) == []
    assert len(compare([_ONE], tried, tried)) == 1
    done = _expected((MarkKind.TX_PUT, _ONE), (MarkKind.TX_TRIED, _ONE), (MarkKind.TX_DONE, _ONE), tx=1)
    assert len(compare([], done, done)) == 1
    dropped = _expected((MarkKind.TX_PUT, _ONE), (MarkKind.TX_TRIED, _ONE), (MarkKind.TX_DROPPED, _ONE), tx=1)
    assert compare([], dropped, dropped) == []
    assert len(compare([_ONE], dropped, dropped)) == 1


def _got(message: Identity, process: int = 1) -> Mark:
    return Mark(MarkKind.GOT, process, 1, 0, message)


def _acked(message: Identity) -> list[Mark]:
    return [Mark(kind, 1, 1, 0, message) for kind in (MarkKind.ACK_TRIED, MarkKind.ACK_DONE)]


def _made(*messages: Identity) -> list[Mark]:
    return [Mark(kind, 1, 0, 0, each) for each in messages for kind in (MarkKind.PUT_TRIED, MarkKind.PUT_DONE)]


def _in_transaction(end: MarkKind) -> list[Mark]:
    """Put two messages and acknowledge another one in a transaction."""
    parts = [Mark(MarkKind.TX_PUT, 1, 0, 1, each) for each in (_ONE, _TWO)] + [Mark(MarkKind.TX_ACK, 1, 0, 1, _THREE)]
    tried = [*_made(_THREE), _got(_THREE), *parts, Mark(MarkKind.TX_TRIED, 1, 0, 1, _NONE)]
    return tried if end is MarkKind.TX_TRIED else [*tried, Mark(end, 1, 0, 1, _NONE)]


@pytest.mark.parametrize(
    ("marks", "found", "text"),
    [
        ([*_made(_ONE, _TWO), _got(_ONE), *_acked(_ONE)], [_TWO], ""),
        ([*_made(_ONE), _got(_ONE), *_acked(_ONE)[:1]], [_ONE], ""),
        ([*_made(_ONE), _got(_ONE), *_acked(_ONE)[:1]], [], ""),
        (_in_transaction(MarkKind.TX_DONE), [_ONE, _TWO], ""),
        (_in_transaction(MarkKind.TX_TRIED), [_ONE, _TWO], ""),
        (_in_transaction(MarkKind.TX_TRIED), [_THREE], ""),
        (_in_transaction(MarkKind.TX_DROPPED), [_THREE], ""),
        ([*_made(_ONE, _TWO), _got(_TWO), _got(_ONE)], [_ONE, _TWO], "after number 2"),
        ([*_made(_ONE), _got(_TWO)], [_ONE], "was never put"),
        ([*_made(_ONE), _got(_ONE), _got(_ONE, 2), _got(_ONE, 2)], [_ONE], "given twice to process 2"),
        ([*_made(_ONE), _got(_ONE), *_acked(_ONE), _got(_ONE, 2)], [], "after it was acknowledged"),
        (_in_transaction(MarkKind.TX_DONE), [_ONE], "but is missing"),
        (_in_transaction(MarkKind.TX_DONE), [_ONE, _TWO, _THREE], "acknowledged durably, but was delivered again"),
        (_in_transaction(MarkKind.TX_TRIED), [_ONE], f"{[_TWO]} do not"),
        ([*_in_transaction(MarkKind.TX_TRIED), _got(_ONE, 2)], [], f"{[_TWO]} do not"),
        (_in_transaction(MarkKind.TX_TRIED), [_ONE, _TWO, _THREE], "were acknowledged by the transaction that put"),
        (
            [*_in_transaction(MarkKind.TX_TRIED), _got(_THREE, 2)],
            [_ONE, _TWO],
            "were acknowledged by the transaction that put",
        ),
        (_in_transaction(MarkKind.TX_TRIED), [], "a transaction whose messages are missing too"),
        ([*_in_transaction(MarkKind.TX_DROPPED), _got(_ONE, 2)], [_THREE], "was never put"),
        (_in_transaction(MarkKind.TX_DROPPED), [], "but is missing"),
    ],
)
def test_messages_that_dead_processes_got_are_checked_too(marks: list[Mark], found: list[Identity], text: str) -> None:
    expected = QueueSystem().expect(map(values_of, marks))
    expected.died()
    wrong = compare(found, expected, expected)
    assert wrong if text else not wrong
    assert all(text in line for line in wrong[:1])


@pytest.mark.parametrize("name", SYSTEMS)
def test_damage_is_a_violation_after_a_mere_death(tmp_path: Path, name: str) -> None:
    system = SYSTEMS[name]
    expected = system.expect(_lived(system, tmp_path / "it", "all"))
    system.put(tmp_path / "it", [_ONE, _TWO])
    page = max((tmp_path / "it").glob("*/*.page"), key=lambda path: path.stat().st_size)
    data = bytearray(page.read_bytes())
    data[60] ^= 1
    page.write_bytes(data)
    seen = system.observe(tmp_path / "it")
    damage = [line for line in system.compare(seen, expected, expected, Crash.KILL) if "before opening" in line]
    assert damage
    assert set(damage).isdisjoint(system.compare(seen, expected, expected, Crash.POWER))


def test_a_path_that_cannot_be_opened_is_found(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"")
    for system in SYSTEMS.values():
        assert system.observe(tmp_path / "it").problems


def _told(*calls: tuple[set[Component], bool]) -> list[str]:
    """Return the violations of calls, given the components that they use, and whether they were accepted."""
    wrong: list[str] = []
    tracker = PoisonTracker(wrong)
    for used, accepted in calls:
        with suppress(PoisonedError), tracker.using(*used):
            if not accepted:
                raise PoisonedError("a sync failed")
    return wrong


def test_a_forgotten_failure_is_found_and_one_of_another_component_is_not() -> None:
    both = {_PAGES, _JOURNAL}
    for used in ({_PAGES}, {_JOURNAL}, both):
        assert _told((used, True), (used, False), (used, False)) == []
        assert len(_told((used, False), (used, True))) == 1
    assert _told(({_PAGES}, False), ({_JOURNAL}, True)) == []
    assert _told((both, False), ({_JOURNAL}, True), (both, False), ({_JOURNAL}, True)) == []
    assert len(_told((both, False), ({_JOURNAL}, True), ({_PAGES}, True))) == 1
    assert len(_told((both, False), ({_JOURNAL}, True), ({_JOURNAL}, False))) == 0
    assert len(_told(({_PAGES}, False), ({_JOURNAL}, False), (both, True))) == 1


def test_messages_depaged_by_threads_exist_once(tmp_path: Path) -> None:
    system = SYSTEMS["depaged"]
    marks = _lived(system, tmp_path / "it", "threads")
    expected = system.expect(marks)
    assert len(expected.durable) > 10
    assert [each for each in map(mark_of, marks) if each.kind is MarkKind.MESSAGE_SYNCED]
    assert compare(system.read_all(tmp_path / "it"), expected, expected) == []
