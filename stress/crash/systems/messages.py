"""What queues and depaged pages have in common: messages that are put and acknowledged, and how both are judged.

1. What was put, and promised to be durable, is there, unless somebody may have acknowledged it.
2. What was acknowledged, and promised so, is not.
3. Nothing is there twice, or that nobody put; and the messages of a thread come in its order.
4. Of a transaction all is there that was not acknowledged, or nothing.
5. What was got and not acknowledged comes again when it is opened anew, all of it and nothing else.
6. A process is given no message twice, and none whose acknowledgement an earlier one was told of; each of its threads
   is given the messages of another thread in their order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from binlog.errors import NotFoundError
from binlog.journal import check_journal
from binlog.paging import check_paging
from stress.crash.marks import Values
from stress.crash.striker import Kind
from stress.crash.system import Actor, Crash, Observing, System, Who
from stress.crash.systems.message_marks import Identity, Mark, What, mark_of

_NONE = Identity(0, 0, 0)
_IN_TRANSACTION = (What.TX_ACK, What.TX_PUT, What.TX_TRIED, What.TX_DONE, What.TX_DROPPED)
_JUDGE = 99
FAULT_KINDS = frozenset({
    Kind.READ, Kind.WRITE, Kind.DATA_SYNC, Kind.SYNC, Kind.ALLOCATE, Kind.TRUNCATE, Kind.OPEN, Kind.LINK, Kind.UNLINK,
    Kind.MAKE_DIRECTORY, Kind.LOCK,
})  # fmt: skip


class MessageActor(Actor):
    """It puts messages, each with a number of its own."""

    def __init__(self, who: Who, thread: int = 0) -> None:
        super().__init__(who)
        self._thread = thread
        self._number = self._tx = 0

    def go_on(self) -> None:
        """Put one message."""
        self.put()

    @abstractmethod
    def put(self) -> None:
        """Put one message."""

    def close(self) -> None:
        """Close what it has, which promises all."""
        self._close()
        self._mark(What.PUTS_SYNCED)
        self._mark(What.ACKS_SYNCED)

    @abstractmethod
    def _close(self) -> None: ...

    def _next(self) -> Identity:
        self._number += 1
        return Identity(self._who.life, self._thread, self._number)

    def _made(self, what: What, message: Identity = _NONE) -> Mark:
        return Mark(what, self._who.life, self._thread, self._tx if what in _IN_TRANSACTION else 0, message)

    def _mark(self, what: What, message: Identity = _NONE) -> None:
        self.mark(self._made(what, message))


@dataclass
class _Transaction:
    """undone: its commit was tried, and has not returned.  again: those of `acked` that somebody got after that."""

    put: list[Identity] = field(default_factory=list)
    acked: list[Identity] = field(default_factory=list)
    undone: bool = False
    again: set[Identity] = field(default_factory=set)


@dataclass
class Expectation:
    """By the marks until some tick.  Of a message: whether somebody tried to put it, and to acknowledge it.

    acked: by which life each was acknowledged last: what a power cut took of that one no later one can have synced.
    given: what processes got; wrong: what they may not have got.  has_died: whether only a process died.
    last_to_ack: which transaction tried to acknowledge a message, if nobody did after it.
    """

    tried: set[Identity] = field(default_factory=set)
    put: set[Identity] = field(default_factory=set)
    durable: set[Identity] = field(default_factory=set)
    ack_tried: set[Identity] = field(default_factory=set)
    acked: dict[Identity, int] = field(default_factory=dict)
    gone: set[Identity] = field(default_factory=set)
    transactions: dict[tuple[int, ...], _Transaction] = field(default_factory=lambda: defaultdict(_Transaction))
    given: set[Identity] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    has_died: bool = False
    last_to_ack: dict[Identity, _Transaction] = field(default_factory=dict)
    _given_again: list[str] = field(default_factory=list)
    _of_life: set[tuple[int, Identity]] = field(default_factory=set)
    _last: dict[tuple[int, ...], int] = field(default_factory=dict)

    def add(self, values: Values) -> None:
        """Take one more mark into account."""
        mark = mark_of(values)
        transaction = self.transactions[mark.life, mark.thread, mark.tx] if mark.tx else _Transaction()
        match mark.what:
            case What.GOT:
                self._get(mark)
            case What.PUT_TRIED:
                self.tried.add(mark.message)
            case What.PUT_DONE:
                self.put.add(mark.message)
            case What.ACK_TRIED:
                self.ack_tried.add(mark.message)
                self.last_to_ack.pop(mark.message, None)
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
                self.tried.update(transaction.put)
                self.ack_tried.update(transaction.acked)
                self.last_to_ack.update(dict.fromkeys(transaction.acked, transaction))
                transaction.undone = True
            case What.TX_DONE:
                transaction.undone = False
                self.durable.update(transaction.put)
                self.gone.update(transaction.acked)
            case What.TX_DROPPED:
                self.tried.difference_update(transaction.put)
                self.ack_tried.difference_update(transaction.acked)
                transaction.undone = False

    def _get(self, mark: Mark) -> None:
        message = mark.message
        if message not in self.tried:
            self.wrong.append(f"{message} was given to process {mark.life}, and nobody put it")
        if message in self.acked or message in self.gone:
            self._given_again.append(f"{message} was given to process {mark.life} after it was acknowledged")
        if (mark.life, message) in self._of_life:
            self.wrong.append(f"{message} was given twice to process {mark.life}")
        producer = (mark.life, mark.thread, message.life, message.producer)
        if self._last.get(producer, 0) > message.number:
            self.wrong.append(f"{message} was given to process {mark.life} behind number {self._last[producer]}")
        self._last[producer] = message.number
        self._of_life.add((mark.life, message))
        self.given.add(message)
        if message in self.last_to_ack:
            self.last_to_ack[message].again.add(message)

    def died(self) -> None:
        """All that calls had returned for is promised."""
        self.durable |= self.put
        self.gone.update(self.acked)
        self.wrong += self._given_again  # else a power cut may have taken the acknowledgement
        self.has_died = True

    @property
    def promised(self) -> int:
        """How many messages were promised."""
        return len(self.durable)


@dataclass(slots=True)
class Observation:
    """What came of a state.

    problems: what is wrong whatever was promised.  found: what was got, in its order.
    damage: what `check` told before it was opened and after it was used: a mere death leaves none.
    """

    problems: list[str] = field(default_factory=list)
    found: list[Identity] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


class MessagesSystem(System[Expectation, Observation]):
    """Something that messages are put into."""

    fault_kinds = FAULT_KINDS
    cuts_between = True

    @abstractmethod
    def look(self, path: Path) -> list[Identity]:
        """All messages that are there, in their order, which stay."""

    @abstractmethod
    def drain(self, path: Path) -> list[Identity]:
        """Likewise, and they are gone then."""

    @abstractmethod
    def put(self, path: Path, messages: list[Identity]) -> None:
        """Put messages, the first by itself, the others in one transaction."""

    def expectation(self) -> Expectation:
        """Nothing."""
        return Expectation()

    def observe(
        self, path: Path, marks: Sequence[Values] = (), *, again: bool = False, stays: bool = False
    ) -> Observation:
        """Get all, put more, and look whether that is there; then nothing is to be left."""
        seen = Observation()
        with Observing(seen.problems):
            if path.exists() and not stays:
                _check(path, seen, "before it was opened")
            seen.found = self.look(path)
            if not stays:
                self._use(path, seen)
                _check(path, seen, "once it was used")
        return seen

    def _use(self, path: Path, seen: Observation) -> None:
        if (found := self.drain(path)) != seen.found:
            seen.problems.append(f"{seen.found} were got, and when it was opened anew {found}")
        mine = [Identity(_JUDGE, 0, number) for number in range(1, 4)]
        self.put(path, mine)
        if (found := self.drain(path)) != mine:
            seen.problems.append(f"{mine} were put when all else was acknowledged, and {found} are there")

    def compare(
        self, seen: Observation, least: Expectation, most: Expectation, crash: Crash = Crash.POWER
    ) -> list[str]:
        """What is wrong with what was got."""
        found, there = seen.found, set(seen.found)
        wrong = [*least.wrong, *([] if crash is Crash.POWER else seen.damage)]
        wrong += [f"{each} was promised, and is not there" for each in sorted(least.durable - least.ack_tried - there)]
        wrong += [f"{each} was acknowledged durably, and came again" for each in sorted(least.gone & there)]
        wrong += [f"{each} is there, and nobody put it" for each in sorted(there - most.tried)]
        if len(there) != len(found):
            wrong.append("some messages are there twice")
        last: dict[tuple[int, int], int] = {}
        for each in found:
            if last.get(each[:2], 0) > each.number:
                wrong.append(f"{each} comes behind number {last[each[:2]]}")
            last[each[:2]] = each.number
        for transaction in least.transactions.values():
            wrong += _halves(transaction, there, least)
        return wrong

    def lasted(self, before: Observation, after: Observation) -> list[str]:
        """What is wrong after a power cut."""
        if after.found == before.found:
            return []
        return [f"{before.found} were there when it was closed, and {after.found} are now"]


def _check(path: Path, seen: Observation, when: str) -> None:
    with suppress(NotFoundError):  # it was being made
        problems = [*check_paging(path), *check_journal(path / "journal")]
        seen.damage += [f"{when}: {problem}" for problem in problems]


def _halves(transaction: _Transaction, there: set[Identity], least: Expectation) -> Iterator[str]:
    given = (there | least.given).intersection(transaction.put)
    again = transaction.again | there.intersection(transaction.acked)
    missing = set(transaction.put) - least.ack_tried - given
    if given and missing:
        yield f"of a transaction's messages {sorted(given)} are there, or were given, and {sorted(missing)} are not"
    if given and again:
        yield f"{sorted(again)} are there, which a transaction acknowledged that put {sorted(given)}"
    is_nothing_there = not given and least.ack_tried.isdisjoint(transaction.put)
    last = {each for each in transaction.acked if least.last_to_ack.get(each) is transaction}
    if least.has_died and transaction.undone and is_nothing_there and (lost := last - again):
        yield f"{sorted(lost)} are not there, which a transaction acknowledged of which nothing is there"
