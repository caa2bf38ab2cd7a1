from __future__ import annotations

from pathlib import Path

from stress.crash.paging.judge import Expectation, compare, observe
from stress.crash.paging.queues import QUEUE
from stress.paging.ledger import Identity, Mark, What

_FIRST, _SECOND = (Identity(1, 0, number) for number in (1, 2))


def _expected(*marks: tuple[What, int, Identity | None]) -> Expectation:
    expected = Expectation()
    for what, life, message in marks:
        expected.add(Mark(what, life, 0, 0, message or Identity(0, 0, 0)))
    return expected


def _wrong(found: list[Identity], *marks: tuple[What, int, Identity | None]) -> list[str]:
    expected = _expected(*marks)
    return compare(found, expected, expected)


_PUT = ((What.PUT_TRIED, 1, _FIRST), (What.PUT_DONE, 1, _FIRST))
_ACKED = (*_PUT, (What.ACK_TRIED, 1, _FIRST), (What.ACK_DONE, 1, _FIRST))


def test_what_was_promised_is_missed_and_what_was_not_may_go() -> None:
    assert _wrong([], *_PUT) == []
    assert len(_wrong([], *_PUT, (What.PUTS_SYNCED, 1, None))) == 1
    assert len(_wrong([_SECOND], *_PUT)) == 1
    assert len(_wrong([_FIRST, _FIRST], *_PUT)) == 1


def test_an_acknowledgement_is_durable_once_who_made_it_has_synced() -> None:
    assert _wrong([_FIRST], *_ACKED) == []
    assert len(_wrong([_FIRST], *_ACKED, (What.ACKS_SYNCED, 1, None))) == 1
    assert _wrong([_FIRST], *_ACKED, (What.ACKS_SYNCED, 2, None)) == [], "a power cut may have taken it before"
    again = ((What.ACK_TRIED, 2, _FIRST), (What.ACK_DONE, 2, _FIRST), (What.ACKS_SYNCED, 2, None))
    assert len(_wrong([_FIRST], *_ACKED, *again)) == 1
    died = _expected(*_ACKED)
    died.died()
    assert len(compare([_FIRST], died, died)) == 1


def test_all_that_is_in_a_queue_is_seen_and_what_is_put_behind_it(tmp_path: Path) -> None:
    QUEUE.put(tmp_path, [_FIRST, _SECOND])
    seen = observe(tmp_path, QUEUE)
    assert (seen.found, seen.problems) == ([_FIRST, _SECOND], [])
