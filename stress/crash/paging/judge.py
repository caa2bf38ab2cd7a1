"""Judging a state of a queue: it is opened, all is got from it, more is put, and it is opened again.

1. What was put, and promised to be durable, is there, unless somebody may have acknowledged it.
2. What was acknowledged, and promised so, is not.
3. Nothing is there twice, or that nobody put; and the messages of a process come in its order.
4. Of a transaction all is there that was not acknowledged, or nothing.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from binlog.errors import BinlogError
from stress.crash.marks import Values
from stress.crash.paging.actor import open_small
from stress.crash.paging.marks import mark_of, values_of
from stress.crash.subject import Judging
from stress.paging.ledger import Identity, Mark, What
from stress.paging.messages import identity_of, short_message_of

_JUDGE = 99


@dataclass
class _Transaction:
    put: list[Identity] = field(default_factory=list)
    acked: list[Identity] = field(default_factory=list)
    fate: What | None = None


@dataclass
class Expectation:
    """By the marks until some tick.  Of a message: whether somebody tried to put it, and to acknowledge it."""

    marks: list[Mark] = field(default_factory=list)
    tried: set[Identity] = field(default_factory=set)
    put: set[Identity] = field(default_factory=set)
    durable: set[Identity] = field(default_factory=set)
    ack_tried: set[Identity] = field(default_factory=set)
    acked: set[Identity] = field(default_factory=set)
    gone: set[Identity] = field(default_factory=set)
    transactions: dict[tuple[int, int], _Transaction] = field(default_factory=lambda: defaultdict(_Transaction))

    def add(self, mark: Mark) -> None:
        """Take one more mark into account."""
        self.marks.append(mark)
        transaction = self.transactions[mark.life, mark.tx] if mark.tx else _Transaction()
        match mark.what:
            case What.PUT_TRIED:
                self.tried.add(mark.message)
            case What.PUT_DONE:
                self.put.add(mark.message)
            case What.ACK_TRIED:
                self.ack_tried.add(mark.message)
            case What.ACK_DONE:
                self.acked.add(mark.message)
            case What.PUTS_SYNCED:
                self.durable |= {each for each in self.put if each.life == mark.life}
            case What.ACKS_SYNCED:
                self.gone |= self.acked
            case What.TX_PUT:
                transaction.put.append(mark.message)
            case What.TX_ACK:
                transaction.acked.append(mark.message)
            case What.TX_TRIED:
                transaction.fate = mark.what
                self.tried.update(transaction.put)
                self.ack_tried.update(transaction.acked)
            case What.TX_DONE:
                transaction.fate = mark.what
                self.durable.update(transaction.put)
                self.gone.update(transaction.acked)

    def died(self) -> None:
        """Only a process died: all that calls had returned for is so."""
        self.durable |= self.put
        self.gone |= self.acked


@dataclass(slots=True)
class Observation:
    """What came of a state.  problems: what is wrong whatever was promised.  found: what was got, in its order."""

    problems: list[str] = field(default_factory=list)
    found: list[Identity] = field(default_factory=list)


class QueueJudging(Judging[Expectation, Observation]):
    """See the module."""

    def __init__(self, seed: str, marks: list[Values]) -> None:
        """Messages say which they are."""

    def expectation(self) -> Expectation:
        """Nothing."""
        return Expectation()

    def add(self, expected: Expectation, mark: Values) -> None:
        """Take one more mark into account."""
        expected.add(mark_of(mark))

    def observe(self, path: Path) -> Observation:
        """Open a state, which is changed by that."""
        return observe(path)

    def compare(self, seen: Observation, least: Expectation, most: Expectation) -> list[str]:
        """What is wrong."""
        return [*seen.problems, *compare(seen.found, least, most)]

    def crashed(self, least: Expectation, most: Expectation) -> tuple[Values, ...]:
        """What was tried, and what was promised."""
        return tuple(map(values_of, least.marks))


def compare(found: list[Identity], least: Expectation, most: Expectation) -> list[str]:
    """What is wrong with what was got."""
    there = set(found)
    wrong = [f"{each} was promised, and is not there" for each in sorted(least.durable - least.ack_tried - there)]
    wrong += [f"{each} was acknowledged durably, and came again" for each in sorted(least.gone & there)]
    wrong += [f"{each} is there, and nobody put it" for each in sorted(there - most.tried)]
    if len(there) != len(found):
        wrong.append("some messages are there twice")
    last: dict[int, int] = {}
    for each in found:
        if last.get(each.life, 0) > each.number:
            wrong.append(f"{each} comes behind number {last[each.life]}")
        last[each.life] = each.number
    for transaction in least.transactions.values():
        wrong += _halves(transaction, there, least)
    return wrong


def _halves(transaction: _Transaction, there: set[Identity], least: Expectation) -> Iterator[str]:
    put = [each for each in transaction.put if each not in least.ack_tried]
    given = there.intersection(put)
    if given and len(given) < len(put):
        yield f"of a transaction's messages {sorted(given)} are there, and of {put} the others are not"
    if given and (again := there.intersection(transaction.acked)):
        yield f"{sorted(again)} are there, which a transaction acknowledged that put {sorted(given)}"


def observe(path: Path) -> Observation:
    """Get all, put more, and look whether that is there; then nothing is to be left."""
    seen = Observation()
    descriptors = len(os.listdir("/proc/self/fd"))
    try:
        seen.found = _drain(path)
        mine = _put(path)
        if (again := _drain(path)) != mine:
            seen.problems.append(f"{mine} were put when all else was acknowledged, and {again} are there")
    except BinlogError as error:
        seen.problems.append(f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever the queue raises is what is to be told
        seen.problems.append(f"an error that is none of binlog's: {type(error).__name__}: {error}")
    if (left := len(os.listdir("/proc/self/fd")) - descriptors) > 0:
        seen.problems.append(f"{left} descriptors were left open")
    return seen


def _drain(path: Path) -> list[Identity]:
    found = []
    with open_small(path) as queue:
        while not queue.empty():
            message = queue.get_nowait()
            found.append(identity_of(message.body))
            queue.ack(message)
    return found


def _put(path: Path) -> list[Identity]:
    mine = [Identity(_JUDGE, 0, number) for number in range(1, 4)]
    with open_small(path) as queue:
        queue.put(short_message_of(mine[0]))
        with queue.transaction() as transaction:
            for each in mine[1:]:
                transaction.put(short_message_of(each))
    return mine
