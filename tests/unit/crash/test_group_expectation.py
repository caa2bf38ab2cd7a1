"""The checks of consumer groups find each violation that they are made for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.consumers import GroupControl, read_dead_letters
from binlog.consumers.state import group_log
from stress.crash.system import Crash, ProcessContext
from stress.crash.systems.group.actor import GROUP, REJECTED, open_group
from stress.crash.systems.group.expectation import Expectation, Letter
from stress.crash.systems.group.marks import Identity, Mark, MarkKind, record_of
from stress.crash.systems.group.observation import Observation, all_letters
from stress.crash.systems.group.system import GroupSystem
from tests.support.crash_harness import Marks, verdict

SYSTEM = GroupSystem()
ONE, TWO = Identity(9, 1), Identity(9, 2)
KEYED, KEYED_TOO = Identity(9, 6), Identity(9, 12)
GOT, ACK, NACK, REJECT, ENDED, LOST = (
    MarkKind.GOT,
    MarkKind.ACK_TRIED,
    MarkKind.NACK_TRIED,
    MarkKind.REJECT_TRIED,
    MarkKind.ENDED,
    MarkKind.LOST,
)


@pytest.fixture(autouse=True)
def _files_of_the_usual_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore them after a test that made them small."""
    for name in ("_FILE_BYTES", "_HISTORY_BYTES", "_CHECKPOINT_SECONDS"):
        monkeypatch.setattr(group_log, name, getattr(group_log, name))


def _put(*messages: Identity) -> list[Mark]:
    kinds = (MarkKind.PUT_TRIED, MarkKind.PUT_DONE)
    return [Mark(kind, 9, each, durable=1) for each in messages for kind in kinds]


def _of(kind: MarkKind, process: int, message: Identity = ONE, delivery: int = 1, *, epoch: int = 0) -> Mark:
    return Mark(kind, process, message, delivery, epoch, message.number, int(kind is ENDED))


def _acked(process: int, message: Identity = ONE, delivery: int = 1) -> list[Mark]:
    return [_of(kind, process, message, delivery) for kind in (GOT, ACK, ENDED)]


def _wrong(
    marks: list[Mark],
    *due: Identity,
    dead: tuple[Letter, ...] = (),
    in_log: tuple[Identity, ...] = (ONE, TWO, KEYED, KEYED_TOO),
) -> list[str]:
    expected: Expectation = SYSTEM.expect(Marks(marks))
    expected.died()
    seen = Observation(in_log=dict(enumerate(in_log)), due=set(due), letters=[*dead])
    return SYSTEM.compare(seen, expected, expected, Crash.KILL)


def _lived(path: Path, scenario: str, process_numbers: tuple[int, ...] = (1, 2)) -> Marks:
    """Run a scenario in two processes, one after the other."""
    marks = Marks()
    for number in process_numbers:
        context = ProcessContext(marks, number, random.Random(f"{scenario}/{number}"))
        SYSTEM.run_scenario(path, SYSTEM.scenarios[scenario], context, SYSTEM.variants[number % 2])
    return marks


@pytest.mark.parametrize("scenario", SYSTEM.scenarios)
@pytest.mark.slow
@pytest.mark.slow
def test_an_intact_state_has_no_violation(tmp_path: Path, scenario: str) -> None:
    marks = _lived(tmp_path / "log", scenario)
    expected = SYSTEM.expect(marks)
    assert expected.durable
    looked = SYSTEM.observe(tmp_path / "log", stays=True)
    assert looked.problems == []
    assert verdict(SYSTEM, tmp_path / "log", marks, Crash.KILL) == []


def test_what_is_right_is_no_violation() -> None:
    assert _wrong([*_put(ONE, TWO), *_acked(1)], TWO) == []
    failed = [_of(GOT, 1), _of(NACK, 1), _of(ENDED, 1), _of(GOT, 2, delivery=2), _of(REJECT, 2, delivery=2)]
    assert _wrong([*_put(ONE), *failed, _of(ENDED, 2, delivery=2)], dead=(Letter(ONE, "rejected", 2),)) == []
    died = [_of(GOT, 1), *_acked(2, delivery=2)]
    assert _wrong([*_put(ONE), *died]) == []


def test_a_lost_message_is_found() -> None:
    (text,) = _wrong(_put(ONE, TWO), TWO)
    assert "neither delivered nor a dead letter" in text


def test_an_acknowledged_message_that_returns_is_found() -> None:
    (text,) = _wrong([*_put(ONE), *_acked(1)], ONE)
    assert "was acknowledged durably, but was delivered again" in text
    (text,) = _wrong([*_put(ONE), *_acked(1), _of(GOT, 2, delivery=2)])
    assert "after it was acknowledged durably" in text


def test_a_message_in_two_hands_is_found() -> None:
    marks = [*_put(ONE), _of(GOT, 1), _of(GOT, 2, delivery=2), _of(ACK, 1)]
    (text,) = _wrong(marks)
    assert "was given to process 2 while process 1 had it" in text


def test_a_released_message_may_be_in_two_hands() -> None:
    opened = Mark(MarkKind.OPENED, 1, delivery=77)
    released = Mark(MarkKind.RELEASE_TRIED, 3, delivery=77)
    assert _wrong([opened, *_put(ONE), _of(GOT, 1), released, _of(GOT, 2, delivery=2), _of(ACK, 1), _of(LOST, 1)]) == []


def test_a_repeated_delivery_number_is_found() -> None:
    (text,) = _wrong([*_put(ONE), _of(GOT, 1), _of(GOT, 2)], ONE)
    assert "was given to another one before" in text


def test_an_end_that_is_refused_without_a_cause_is_found() -> None:
    (text,) = _wrong([*_put(ONE), _of(GOT, 1), _of(ACK, 1), _of(LOST, 1)], ONE)
    assert "could not end it" in text


def test_a_key_out_of_order_is_found() -> None:
    assert KEYED.key == KEYED_TOO.key is not None
    marks = [*_put(KEYED, KEYED_TOO), _of(GOT, 1, KEYED), _of(GOT, 2, KEYED_TOO)]
    (text,) = _wrong(marks, KEYED, KEYED_TOO)
    assert "before Identity(process=9, number=6) with its key was done" in text
    dead = (Letter(KEYED, "worker died", 3),)
    assert _wrong(marks, KEYED_TOO, dead=dead) == []


def test_dead_letters_without_a_cause_or_twice_are_found() -> None:
    (text,) = _wrong(_put(ONE), dead=(Letter(ONE, "rejected", 1),))
    assert "no process rejected it" in text
    (text,) = _wrong(_put(ONE), dead=(Letter(ONE, "worker died", 1),))
    assert "after 1 deliveries" in text
    (text,) = _wrong(_put(ONE), dead=(Letter(ONE, "worker died", 3),) * 2)
    assert "is 2 dead letters" in text


def test_an_invented_message_is_found() -> None:
    (text,) = _wrong([], ONE)
    assert "was never appended" in text


def test_a_message_that_was_removed_too_early_is_found() -> None:
    expected = SYSTEM.expect(Marks([*_put(ONE), *_acked(1)]))
    seen = Observation(in_log={1: TWO}, gone=[0])
    assert SYSTEM.compare(seen, expected, expected, Crash.POWER) == [
        "the group needs message 0, which retention removed"
    ]


def test_a_reset_lets_messages_return() -> None:
    reset = [Mark(MarkKind.RESET_TRIED, 3), Mark(MarkKind.RESET_DONE, 3)]
    assert _wrong([*_put(ONE), *_acked(1), *reset], ONE) == []
    (text,) = _wrong([*_put(ONE), *_acked(1), *reset])
    assert "neither delivered nor a dead letter" in text
    assert _wrong([*_put(ONE), *_acked(1), *reset], in_log=(TWO,)) == []


def test_a_message_that_is_appended_during_a_reset_may_be_a_dead_letter_before_it() -> None:
    rejected = [_of(GOT, 1), _of(REJECT, 1), _of(ENDED, 1)]
    acked = [_of(kind, 2, epoch=1) for kind in (GOT, ACK, ENDED)]
    dead = (Letter(ONE, "rejected", 1),)
    begun, ended = Mark(MarkKind.RESET_TRIED, 3), Mark(MarkKind.RESET_DONE, 3)
    assert _wrong([begun, *_put(ONE), *rejected, ended, *acked], dead=dead) == []
    (text,) = _wrong([begun, ended, *_put(ONE), *rejected, *acked], dead=dead)
    assert "was acknowledged durably, but is a dead letter" in text


def test_an_item_that_a_process_got_before_a_reset_may_be_marked_after_it() -> None:
    reset = [Mark(MarkKind.RESET_TRIED, 3), Mark(MarkKind.RESET_DONE, 3)]
    acked = [_of(kind, 2, epoch=1) for kind in (GOT, ACK, ENDED)]
    assert _wrong([*_put(ONE), *reset, *acked, _of(GOT, 1)]) == []
    (text,) = _wrong([*_put(ONE), *reset, *acked, _of(GOT, 1, delivery=2, epoch=1)])
    assert "after it was acknowledged durably" in text


def test_a_dead_letter_of_a_removed_message_names_no_message(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer, open_group(tmp_path) as group, open_group(tmp_path) as other:
        writer.append(record_of(ONE))
        item = group.get(timeout=0)
        assert item is not None
        writer.cutover()
        writer.append(record_of(TWO))
        assert [each.number for each in binlog.prune(tmp_path, before="2:256", ignore_groups=True)] == [1]
        with GroupControl(tmp_path, GROUP) as control:
            control.reject(item.token, error=REJECTED)
        other.get(timeout=0)  # it makes the dead letter, and does not have the message in memory
    assert [letter.body for letter in read_dead_letters(tmp_path, GROUP)] == [b""]
    assert all_letters(tmp_path) == []


def test_a_power_cut_takes_back_what_is_not_durable() -> None:
    ended = _of(ENDED, 1)._replace(durable=0)
    marks = [*_put(ONE), _of(GOT, 1), _of(ACK, 1), ended, Mark(MarkKind.POWER_CUT, 20), _of(GOT, 20)]
    assert _wrong(marks, ONE) == []
