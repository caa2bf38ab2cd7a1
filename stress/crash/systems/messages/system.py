"""The rules that queues and depaged pages share: messages that are put and acknowledged.

1. A message that was put durably exists, unless a process may have acknowledged it.
2. A message that was acknowledged durably does not exist.
3. No message exists twice, or without having been put; messages of a thread are in its order.
4. A transaction's unacknowledged messages all exist, or none of them does.
5. Messages that were got and not acknowledged are delivered again after the next opening, all of them and no others.
6. A process gets no message twice, and none that an earlier process has acknowledged; each of its threads gets the
   messages of another thread in their order.
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
from stress.crash.preloaded.injector import Kind
from stress.crash.system import Actor, Crash, ProblemCollector, ProcessContext, System
from stress.crash.systems.messages.marks import Identity, Mark, MarkKind, mark_of

_NONE = Identity(0, 0, 0)
_IN_TRANSACTION = (MarkKind.TX_ACK, MarkKind.TX_PUT, MarkKind.TX_TRIED, MarkKind.TX_DONE, MarkKind.TX_DROPPED)
_CHECKER = 99
FAULT_KINDS = frozenset({
    Kind.READ, Kind.WRITE, Kind.DATA_SYNC, Kind.SYNC, Kind.ALLOCATE, Kind.TRUNCATE, Kind.OPEN, Kind.LINK, Kind.UNLINK,
    Kind.MAKE_DIRECTORY, Kind.LOCK,
})  # fmt: skip


class MessageActor(Actor):
    """Puts numbered messages."""

    def __init__(self, process: ProcessContext, thread: int = 0) -> None:
        super().__init__(process)
        self._thread = thread
        self._number = self._tx = 0

    def append_one(self) -> None:
        """Put one message."""
        self.put()

    @abstractmethod
    def put(self) -> None:
        """Put one message."""

    def close(self) -> None:
        """Close the engine, which promises everything."""
        self._close()
        self._mark(MarkKind.PUTS_SYNCED)
        self._mark(MarkKind.ACKS_SYNCED)

    @abstractmethod
    def _close(self) -> None: ...

    def _next(self) -> Identity:
        self._number += 1
        return Identity(self._process.number, self._thread, self._number)

    def _made(self, kind: MarkKind, message: Identity = _NONE) -> Mark:
        return Mark(kind, self._process.number, self._thread, self._tx if kind in _IN_TRANSACTION else 0, message)

    def _mark(self, kind: MarkKind, message: Identity = _NONE) -> None:
        self.mark(self._made(kind, message))


@dataclass
class _Transaction:
    """A transaction.  undone: its commit was tried and has not returned.  again: messages of `acked` that were got
    after that.
    """

    put: list[Identity] = field(default_factory=list)
    acked: list[Identity] = field(default_factory=list)
    undone: bool = False
    again: set[Identity] = field(default_factory=set)


@dataclass
class Expectation:
    """The state according to the marks until some tick: messages that were put and acknowledged, or tried.

    acked: the process that acknowledged each message last; no later process can have synced what a power cut took of
        it.
    given: messages that processes got; wrong: those that they must not have got.  has_died: whether only a process
        died.
    last_to_ack: the transaction that tried to acknowledge a message, if no call did after it.
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
    _of_process: set[tuple[int, Identity]] = field(default_factory=set)
    _last: dict[tuple[int, ...], int] = field(default_factory=dict)

    def add(self, values: Values) -> None:
        """Add one mark."""
        mark = mark_of(values)
        transaction = self.transactions[mark.process, mark.thread, mark.tx] if mark.tx else _Transaction()
        match mark.kind:
            case MarkKind.GOT:
                self._get(mark)
            case MarkKind.PUT_TRIED:
                self.tried.add(mark.message)
            case MarkKind.PUT_DONE:
                self.put.add(mark.message)
            case MarkKind.ACK_TRIED:
                self.ack_tried.add(mark.message)
                self.last_to_ack.pop(mark.message, None)
            case MarkKind.ACK_DONE:
                self.acked[mark.message] = mark.process
            case MarkKind.PUTS_SYNCED:
                self.durable |= {each for each in self.put if each.process == mark.process}
            case MarkKind.ACKS_SYNCED:
                self.gone.update(each for each, process_number in self.acked.items() if process_number == mark.process)
            case MarkKind.MESSAGE_SYNCED:
                self.durable.add(mark.message)
            case MarkKind.PUT_REFUSED:
                self.tried.discard(mark.message)
            case MarkKind.ACK_REFUSED:
                self.ack_tried.discard(mark.message)
            case MarkKind.TX_PUT:
                transaction.put.append(mark.message)
            case MarkKind.TX_ACK:
                transaction.acked.append(mark.message)
            case MarkKind.TX_TRIED:
                self.tried.update(transaction.put)
                self.ack_tried.update(transaction.acked)
                self.last_to_ack.update(dict.fromkeys(transaction.acked, transaction))
                transaction.undone = True
            case MarkKind.TX_DONE:
                transaction.undone = False
                self.durable.update(transaction.put)
                self.gone.update(transaction.acked)
            case MarkKind.TX_DROPPED:
                self.tried.difference_update(transaction.put)
                self.ack_tried.difference_update(transaction.acked)
                transaction.undone = False

    def _get(self, mark: Mark) -> None:
        message = mark.message
        if message not in self.tried:
            self.wrong.append(f"{message} was given to process {mark.process}, but was never put")
        if message in self.acked or message in self.gone:
            self._given_again.append(f"{message} was given to process {mark.process} after it was acknowledged")
        if (mark.process, message) in self._of_process:
            self.wrong.append(f"{message} was given twice to process {mark.process}")
        producer = (mark.process, mark.thread, message.process, message.producer)
        if self._last.get(producer, 0) > message.number:
            self.wrong.append(f"{message} was given to process {mark.process} after number {self._last[producer]}")
        self._last[producer] = message.number
        self._of_process.add((mark.process, message))
        self.given.add(message)
        if message in self.last_to_ack:
            self.last_to_ack[message].again.add(message)

    def died(self) -> None:
        """Promise every call that returned."""
        self.durable |= self.put
        self.gone.update(self.acked)
        self.wrong += self._given_again  # not after a power cut, which may have taken the acknowledgement
        self.has_died = True

    @property
    def promised(self) -> int:
        """The number of promised messages."""
        return len(self.durable)


@dataclass(slots=True)
class Observation:
    """The observation of a state.

    problems: violations that do not depend on the marks.  found: the messages got, in order.
    damage: problems that `check` reported before the opening and after the use; a mere death causes none.
    """

    problems: list[str] = field(default_factory=list)
    found: list[Identity] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


class MessagesSystem(System[Expectation, Observation]):
    """A system that messages are put into."""

    fault_kinds = FAULT_KINDS
    cuts_between = True

    @abstractmethod
    def read_all(self, path: Path) -> list[Identity]:
        """Return all messages in order, and leave them."""

    @abstractmethod
    def drain(self, path: Path) -> list[Identity]:
        """Return all messages in order, and acknowledge them."""

    @abstractmethod
    def put(self, path: Path, messages: list[Identity]) -> None:
        """Put messages, the first alone, the others in one transaction."""

    def expectation(self) -> Expectation:
        """Return an empty expectation."""
        return Expectation()

    def observe(
        self, path: Path, marks: Sequence[Values] = (), *, again: bool = False, stays: bool = False
    ) -> Observation:
        """Get all messages, put more, and check that exactly those exist."""
        seen = Observation()
        with ProblemCollector(seen.problems):
            if path.exists() and not stays:
                _check(path, seen, "before opening")
            seen.found = self.read_all(path)
            if not stays:
                self._use(path, seen)
                _check(path, seen, "after use")
        return seen

    def _use(self, path: Path, seen: Observation) -> None:
        if (found := self.drain(path)) != seen.found:
            seen.problems.append(f"{seen.found} were got, but {found} after the next opening")
        mine = [Identity(_CHECKER, 0, number) for number in range(1, 4)]
        self.put(path, mine)
        if (found := self.drain(path)) != mine:
            seen.problems.append(f"{mine} were put after all others were acknowledged, but {found} exist")

    def compare(
        self, seen: Observation, least: Expectation, most: Expectation, crash: Crash = Crash.POWER
    ) -> list[str]:
        """Return the violations in the messages got."""
        found, there = seen.found, set(seen.found)
        wrong = [*least.wrong, *([] if crash is Crash.POWER else seen.damage)]
        wrong += [f"{each} was promised, but is missing" for each in sorted(least.durable - least.ack_tried - there)]
        wrong += [f"{each} was acknowledged durably, but was delivered again" for each in sorted(least.gone & there)]
        wrong += [f"{each} exists, but was never put" for each in sorted(there - most.tried)]
        if len(there) != len(found):
            wrong.append("some messages exist twice")
        last: dict[tuple[int, int], int] = {}
        for each in found:
            if last.get(each[:2], 0) > each.number:
                wrong.append(f"{each} follows number {last[each[:2]]}")
            last[each[:2]] = each.number
        for transaction in least.transactions.values():
            wrong += _halves(transaction, there, least)
        return wrong

    def check_after_power_cut(self, before: Observation, after: Observation) -> list[str]:
        """Return the violations after a power cut."""
        if after.found == before.found:
            return []
        return [f"it had {before.found} when it was closed, but has {after.found} now"]


def _check(path: Path, seen: Observation, when: str) -> None:
    with suppress(NotFoundError):  # a process died while it was being created
        problems = [*check_paging(path), *check_journal(path / "journal")]
        seen.damage += [f"{when}: {problem}" for problem in problems]


def _halves(transaction: _Transaction, there: set[Identity], least: Expectation) -> Iterator[str]:
    given = (there | least.given).intersection(transaction.put)
    again = transaction.again | there.intersection(transaction.acked)
    missing = set(transaction.put) - least.ack_tried - given
    if given and missing:
        yield f"a transaction took effect in part: {sorted(given)} exist, or were given, but {sorted(missing)} do not"
    if given and again:
        yield f"{sorted(again)} exist, but were acknowledged by the transaction that put {sorted(given)}"
    is_nothing_there = not given and least.ack_tried.isdisjoint(transaction.put)
    last = {each for each in transaction.acked if least.last_to_ack.get(each) is transaction}
    if least.has_died and transaction.undone and is_nothing_there and (lost := last - again):
        yield f"{sorted(lost)} are missing, but were acknowledged by a transaction whose messages are missing too"
