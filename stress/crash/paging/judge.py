"""Judging a state of a queue, or of what is depaged: all is looked at, then acknowledged; then more is put.

1. What was put, and promised to be durable, is there, unless somebody may have acknowledged it.
2. What was acknowledged, and promised so, is not.
3. Nothing is there twice, or that nobody put; and the messages of a process come in its order.
4. Of a transaction all is there that was not acknowledged, or nothing.
5. What was got and not acknowledged comes again when it is opened anew, all of it and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from binlog.errors import BinlogError
from stress.crash.descriptors import left_open, open_descriptors
from stress.crash.marks import Values
from stress.crash.paging.actor import Kind
from stress.crash.paging.marks import mark_of, values_of
from stress.crash.subject import Judging
from stress.paging.ledger import Identity, Mark, What

_JUDGE = 99


@dataclass
class _Transaction:
    put: list[Identity] = field(default_factory=list)
    acked: list[Identity] = field(default_factory=list)
    fate: What | None = None


@dataclass
class Expectation:
    """By the marks until some tick.  Of a message: whether somebody tried to put it, and to acknowledge it.

    acked: by which life each was acknowledged last: what a power cut took of that one no later one can have synced.
    """

    marks: list[Mark] = field(default_factory=list)
    tried: set[Identity] = field(default_factory=set)
    put: set[Identity] = field(default_factory=set)
    durable: set[Identity] = field(default_factory=set)
    ack_tried: set[Identity] = field(default_factory=set)
    acked: dict[Identity, int] = field(default_factory=dict)
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
                self.acked[mark.message] = mark.life
            case What.PUTS_SYNCED:
                self.durable |= {each for each in self.put if each.life == mark.life}
            case What.ACKS_SYNCED:
                self.gone.update(each for each, life in self.acked.items() if life == mark.life)
            case What.MESSAGE_SYNCED:
                self.durable.add(mark.message)
            case What.PUT_REFUSED:
                self.tried.discard(mark.message)
            case What.ACK_REFUSED:
                self.ack_tried.discard(mark.message)
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
            case What.TX_DROPPED:
                transaction.fate = mark.what
                self.tried.difference_update(transaction.put)
                self.ack_tried.difference_update(transaction.acked)

    def died(self) -> None:
        """Only a process died: all that calls had returned for is so."""
        self.durable |= self.put
        self.gone.update(self.acked)


def expectation_of(marks: list[Mark]) -> Expectation:
    """By these marks."""
    expected = Expectation()
    for mark in marks:
        expected.add(mark)
    return expected


@dataclass(slots=True)
class Observation:
    """What came of a state.  problems: what is wrong whatever was promised.  found: what was got, in its order."""

    problems: list[str] = field(default_factory=list)
    found: list[Identity] = field(default_factory=list)


class PagingJudging(Judging[Expectation, Observation]):
    """See the module."""

    def __init__(self, kind: Kind, seed: str, marks: list[Values]) -> None:
        """Messages say which they are."""
        self._kind = kind

    def expectation(self) -> Expectation:
        """Nothing."""
        return Expectation()

    def add(self, expected: Expectation, mark: Values) -> None:
        """Take one more mark into account."""
        expected.add(mark_of(mark))

    def observe(self, path: Path) -> Observation:
        """Open a state, which is changed by that."""
        return observe(path, self._kind)

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


def observe(path: Path, kind: Kind) -> Observation:
    """Get all, put more, and look whether that is there; then nothing is to be left."""
    seen = Observation()
    with told(seen.problems):
        got = kind.look(path)
        seen.found = kind.drain(path)
        if got != seen.found:
            seen.problems.append(f"{got} were got, and when it was opened anew {seen.found}")
        mine = [Identity(_JUDGE, 0, number) for number in range(1, 4)]
        kind.put(path, mine)
        if (again := kind.drain(path)) != mine:
            seen.problems.append(f"{mine} were put when all else was acknowledged, and {again} are there")
    return seen


@contextmanager
def told(problems: list[str]) -> Iterator[None]:
    """Tell what the block raises, and what it leaves open."""
    descriptors = open_descriptors()
    try:
        yield
    except BinlogError as error:
        problems.append(f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever is raised is what is to be told
        problems.append(f"an error that is none of binlog's: {type(error).__name__}: {error}")
    problems += left_open(descriptors)
