"""Kill: a process that has a queue dies at random moments; what was committed comes once, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from stress.paging.judge import Judge
from stress.paging.ledger import Identity, Mark, What
from stress.paging.rounds import PRODUCERS, Round

_A, _B, _C = (Identity(1, 0, number) for number in (1, 2, 3))
_NONE = Identity(0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("producers", PRODUCERS)
def test_what_was_committed_comes_once_however_often_the_process_is_killed(tmp_path: Path, producers: int) -> None:
    one = Round(tmp_path / "round", f"test/{producers}", producers)
    assert one.run(4) == []
    assert one.kills == 4
    assert one.mark_count > 0


def _put(*messages: Identity) -> list[Mark]:
    return [Mark(what, 1, 0, 0, each) for each in messages for what in (What.PUT_TRIED, What.PUT_DONE)]


def _got(message: Identity, life: int = 1) -> Mark:
    return Mark(What.GOT, life, 1, 0, message)


def _acked(message: Identity) -> list[Mark]:
    return [Mark(what, 1, 1, 0, message) for what in (What.ACK_TRIED, What.ACK_DONE)]


def _in_transaction(end: What) -> list[Mark]:
    """It puts two messages and acknowledges another one."""
    marks = [Mark(What.TX_PUT, 1, 0, 1, each) for each in (_A, _B)]
    return [*_put(_C), _got(_C), *marks, Mark(What.TX_ACK, 1, 0, 1, _C), Mark(end, 1, 0, 1, _NONE)]


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        (_put(_A, _B), [_A, _B]),
        ([*_put(_A, _B), _got(_A), *_acked(_A)], [_B]),
        ([*_put(_A), _got(_A), *_acked(_A)[:1]], [_A]),
        ([*_put(_A), _got(_A), *_acked(_A)[:1]], []),
        ([*_put(_A), *_put(_B)[:1]], [_A]),
        (_in_transaction(What.TX_DONE), [_A, _B]),
        (_in_transaction(What.TX_TRIED), [_A, _B]),
        (_in_transaction(What.TX_TRIED), [_C]),
        (_in_transaction(What.TX_DROPPED), [_C]),
    ],
)
def test_the_judge_finds_nothing_wrong_with_what_may_be(marks: list[Mark], found: list[Identity]) -> None:
    assert Judge(marks).wrong(found) == []


@pytest.mark.parametrize(
    ("marks", "found", "told"),
    [
        (_put(_A, _B), [_A], "is not there"),
        (_put(_A), [_A, _A], "given twice"),
        (_put(_A, _B), [_B, _A], "was given behind"),
        (_put(_A), [_A, _B], "never put"),
        ([*_put(_A), _got(_A), _got(_A, life=2), _got(_A, life=2)], [_A], "given twice"),
        ([*_put(_A), _got(_A), *_acked(_A)], [_A], "after it was acknowledged"),
        ([*_put(_A), _got(_A), *_acked(_A), _got(_A, life=2)], [], "after it was acknowledged"),
        (_in_transaction(What.TX_DONE), [_A], "is not there"),
        (_in_transaction(What.TX_DONE), [_A, _B, _C], "after it was acknowledged"),
        (_in_transaction(What.TX_TRIED), [_A], "1 of 2 messages"),
        (_in_transaction(What.TX_TRIED), [_A, _B, _C], "do not agree"),
        (_in_transaction(What.TX_TRIED), [], "do not agree"),
        (_in_transaction(What.TX_DROPPED), [_C, _A], "never committed"),
        (_in_transaction(What.TX_DROPPED), [], "is not there"),
    ],
)
def test_the_judge_finds_what_may_not_be(marks: list[Mark], found: list[Identity], told: str) -> None:
    assert any(told in line for line in Judge(marks).wrong(found))
