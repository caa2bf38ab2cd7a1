"""A page store (`binlog.pagestore`), and how a state of it is judged: looked at, opened, read, emptied, put into again.

TX_PUT and TX_ACK name what a transaction puts and removes; PUTS_SYNCED promises all that was done before; GOT names
what a process found when it had opened the store, and OPENED says that this was all.

1. It has what it had behind one of its transactions: all that were promised before that one too, and none that was not
   tried; each whole, in the order of priorities and keys; and the transactions that were prepared then, which hold
   what is theirs.  A backup likewise, as it was at one moment between the call and its return.
2. Nothing is wrong with it, before it is opened and after: pages are somebody's, or free.
3. It goes on.
4. A backup that was finished is a store; one that was not is that, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from errno import ENOSPC
from pathlib import Path
from typing import ClassVar

from binlog.errors import CorruptError, NotFoundError
from binlog.format.pagestore.other_files import LOG_FILE, PAGE_FILE
from binlog.pagestore import check_page_store
from stress.crash.fault import FAULTS, Fared, Fault
from stress.crash.marks import Values
from stress.crash.striker import Kind
from stress.crash.system import Crash, Observing, Scenario, System, Who
from stress.crash.systems.message_marks import Identity, Mark, What, mark_of, short_message_of
from stress.crash.systems.messages import FAULT_KINDS
from stress.crash.systems.pagestore_actor import (
    COMMIT,
    PREPARE,
    QUEUES,
    SCENARIOS,
    StoreActor,
    all_in,
    backups_in,
    number_of,
    open_small,
    priority_of,
    put_into,
    queues_of,
)

_JUDGE = 99
_INDEX_PAGES_MAX = 2
_MINE = [Identity(_JUDGE, 0, number) for number in range(1, 9)]

Entry = tuple[str, Identity]
Contents = dict[str, list[Identity]]
Found = tuple[Contents, list[int]]


@dataclass
class _Transaction:
    """kind: 0 for a commit, else what an actor tells, of the transaction `number`.  tx: of its life."""

    tx: int = 0
    put: list[Entry] = field(default_factory=list)
    removed: set[Entry] = field(default_factory=set)
    kind: int = 0
    number: int = 0


@dataclass(frozen=True)
class State:
    """What is there.

    order: messages with their queues, in the order of their keys, whoever has them.
    prepared: transactions, with what each puts and removes.
    """

    order: tuple[Entry, ...] = ()
    prepared: Mapping[int, _Transaction] = field(default_factory=dict)

    def behind(self, transaction: _Transaction) -> State:
        """What is there behind a transaction."""
        prepared = dict(self.prepared)
        gone, new = transaction.removed, transaction.put
        if transaction.kind == PREPARE:
            prepared[transaction.number] = transaction
            gone = set()
        elif transaction.kind:
            ended = prepared.pop(transaction.number)
            gone, new = (ended.removed if transaction.kind == COMMIT else set(ended.put)), []
        return State((*(each for each in self.order if each not in gone), *new), prepared)

    @property
    def found(self) -> Found:
        """What somebody finds: messages as the queues give them, and transactions that are prepared."""
        held = {each for one in self.prepared.values() for each in (*one.put, *one.removed)}
        return in_queues([each for each in self.order if each not in held]), [*self.prepared]


@dataclass
class Expectation:
    """By the marks until some tick.

    base: what was there when the last process had opened the store.
    tried: what is there behind each transaction since then whose commit was tried, in their order; of these `done` had
    returned, and `durable` are promised.
    backups: what each may have, by its number.  finished: those that returned.
    wrong: what a process found that could not be.
    """

    base: State = field(default_factory=State)
    tried: list[State] = field(default_factory=list)
    done: int = 0
    durable: int = 0
    backups: dict[int, list[State]] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    _found: list[Entry] = field(default_factory=list)
    _next: _Transaction = field(default_factory=_Transaction)
    _last: int = 0
    _backup: int = 0
    _life: int = 0

    def add(self, values: Values) -> None:
        """Take one more mark into account."""
        mark = mark_of(values)
        if mark.life != self._life:  # what the one before was about to say, it never will
            self._life, self._found, self._backup = mark.life, [], 0
            self._next = _Transaction()
        match mark.what:
            case What.GOT:
                self._found.append((QUEUES[mark.thread], mark.message))
            case What.OPENED:
                self._open()
            case What.TX_PUT:
                self._of(mark).put += entries_of(mark.message)
            case What.TX_ACK:
                self._of(mark).removed.add((QUEUES[mark.thread], mark.message))
            case What.TX_TRIED:
                self._try(mark)
            case What.TX_DROPPED:
                self._drop(mark)
            case What.TX_DONE:
                self.done = len(self.tried)
            case What.PUTS_SYNCED:
                self.durable = self.done
            case What.BACKUP_TRIED:
                self._backup = mark.message.number
                self.backups[self._backup] = [self._now]
            case What.BACKUP_DONE:
                self._backup = 0
                self.finished.add(mark.message.number)

    @property
    def _now(self) -> State:
        return self.tried[-1] if self.tried else self.base

    def _of(self, mark: Mark) -> _Transaction:
        if self._next.tx != mark.tx:  # the one before failed before it was tried
            self._next = _Transaction(mark.tx)
        return self._next

    def _try(self, mark: Mark) -> None:
        tried = self._of(mark)
        tried.kind, tried.number = mark.message.producer, mark.message.number
        self.tried.append(self._now.behind(tried))
        self._last, self._next = mark.tx, _Transaction()
        if self._backup:
            self.backups[self._backup].append(self._now)

    def _drop(self, mark: Mark) -> None:
        if self.tried and self._last == mark.tx:
            self.tried.pop()
            if self._backup:
                self.backups[self._backup].pop()
        self._last, self._next = 0, _Transaction()

    def died(self) -> None:
        """All that calls had returned for is promised."""
        self.durable = self.done

    @property
    def promised(self) -> int:
        """How many transactions are promised."""
        return self.durable

    def states(self, tried_count: int) -> Iterator[State]:
        """What may be there: behind each of the transactions from the last that is promised to the last of so many."""
        yield from [self.base, *self.tried][self.durable : max(tried_count, self.durable) + 1]

    def _open(self) -> None:
        messages = [each for each in self._found if each[1].life]
        found = in_order(messages), [number for _, (life, _, number) in self._found if not life]
        states = [state for state in self.states(len(self.tried)) if state.found == found]
        if not states:
            self.wrong.append(f"a process found {found} when it had opened the store")
        self.base = states[0] if states else State(tuple(messages))
        self.tried, self.done, self.durable = [], 0, 0
        self._found, self._next, self._last = [], _Transaction(), 0


def entries_of(identity: Identity) -> list[Entry]:
    """A message with each of its queues."""
    return [(queue, identity) for queue in queues_of(identity)]


def in_order(found: Iterable[Entry]) -> Contents:
    """Messages as they were found, by their queues."""
    contents: Contents = {queue: [] for queue in QUEUES}
    for queue, identity in found:
        contents[queue].append(identity)
    return contents


def in_queues(there: Iterable[Entry]) -> Contents:
    """Messages, in the order in which they were put, as the queues give them."""
    return in_order(sorted(there, key=lambda each: -priority_of(each[1])))


@dataclass(slots=True)
class Observation:
    """What came of a state.

    problems: what is wrong whatever was promised.  found: what was in the queues, and which transactions were prepared.
    backups: the same of each, by its number; None for one that is refused, or that has nothing yet.
    """

    problems: list[str] = field(default_factory=list)
    found: Found | None = None
    backups: dict[int, Found | None] = field(default_factory=dict)


class PageStoreSystem(System[Expectation, Observation]):
    """See the module."""

    name = "pagestore"
    noun = "pagestore"
    scenarios: ClassVar[Mapping[str, Scenario]] = SCENARIOS
    # Space lacks where it does on a disk: a log's writes go where there is some already.
    faults: ClassVar[Mapping[str, Fault]] = {
        **FAULTS,
        **{
            fault.name: fault
            for fault in (
                Fault((Kind.ALLOCATE, Kind.WRITE), ENOSPC, PAGE_FILE),
                Fault((Kind.OPEN, Kind.WRITE), ENOSPC, ".free"),
            )
        },
    }
    fault_kinds = FAULT_KINDS
    cuts_between = True
    poisoning = frozenset({Kind.WRITE})

    def __init__(self) -> None:
        self.workloads = {name: self.lives(each, 2) for name, each in SCENARIOS.items() if name != "all"}
        self.workloads["recovery"] = self.going_on(SCENARIOS["all"])

    def background_tells(self, fault: Fault) -> bool:
        """Whether a later call, and closing, may say what befell something in the background."""
        return self.may_poison(fault)

    def wrong_errors(self, fault: Fault, fared: Fared, expected: Expectation) -> list[str]:
        """What is wrong with the errors that somebody was told of a fault."""
        wrong = super().wrong_errors(fault, fared, expected)
        return [*wrong, "nothing is damaged, and there was CorruptError"] if "CorruptError" in fared.errors else wrong

    def open(self, path: Path, who: Who, kept: str) -> StoreActor:
        """Open it."""
        with ExitStack() as failing:
            actor = StoreActor(failing.enter_context(open_small(path)), who)
            failing.pop_all()
        return actor

    def expectation(self) -> Expectation:
        """Nothing."""
        return Expectation()

    def observe(
        self, path: Path, marks: Sequence[Values] = (), *, again: bool = False, stays: bool = False
    ) -> Observation:
        """Look at all, and unless it stays empty the queues, put more, and look whether that is there."""
        seen = Observation()
        with Observing(seen.problems):
            seen.backups = {number: _look_at_backup(each, seen) for number, each in backups_in(path).items()}
            if path.exists():
                _check(path, seen, "before it was opened")
            seen.found = look(path)
            _check(path, seen, "once it was opened")
            if not stays:
                _go_on(path, seen)
                _check(path, seen, "once it was used")
        return seen

    def compare(
        self, seen: Observation, least: Expectation, most: Expectation, crash: Crash = Crash.POWER
    ) -> list[str]:
        """What is wrong with what is in the queues, and in backups."""
        wrong = [*least.wrong]
        # A process may have opened the store between the two: what was tried before that is in its base.
        tried_count = len(most.tried) if most.base == least.base else 0
        states = [state.found for state in least.states(tried_count)]
        if seen.found is not None and seen.found not in states:
            wrong.append(f"{seen.found} is there, and not one of the {len(states)} that may be, first {states[0]}")
        wrong += [f"the backup {number} was finished, and is no store" for number in sorted(least.finished)
                  if seen.found is not None and seen.backups.get(number) is None]  # fmt: skip
        for number, found in seen.backups.items():
            may_be = [state.found for state in (*least.backups.get(number, ()), *most.backups.get(number, ()))]
            if found is not None and found not in may_be:
                wrong.append(f"the backup {number} has {found}, and not one of the {len(may_be)} states that may be")
        return wrong

    def lasted(self, before: Observation, after: Observation) -> list[str]:
        """What is wrong after a power cut."""
        if after.found == before.found:
            return []
        return [f"{before.found} was there when it was closed, and {after.found} is now"]


def look(path: Path) -> Found:
    """Open it; what is there, which stays.  Raises: what opening it raises."""
    with open_small(path) as store:
        return all_in(store), [number_of(each.xid) for each in store.prepared]


def _look_at_backup(path: Path, seen: Observation) -> Found | None:
    if not any(path.iterdir()):
        return None
    if (path / LOG_FILE).exists():
        seen.problems += [f"{path.name}: {problem}" for problem in check_page_store(path)]
        return look(path)
    with suppress(CorruptError):
        return look(path)
    return None


def _go_on(path: Path, seen: Observation) -> None:
    with open_small(path) as store:
        for number, each in enumerate(store.prepared):
            (store.commit_prepared if number % 2 else store.rollback_prepared)(each.xid)
        with store.transaction() as transaction:
            for queue in QUEUES:
                while transaction.get(queue) is not None:
                    pass
            for mine in _MINE:
                put_into(transaction, mine, short_message_of(mine))
        store.checkpoint()
        used = store._free.page_count - store._free.free_count
        indexes = [store._content.get(name).index.parts for name in store._content.first_pages]
    # What is put may begin in the page in which the last one lay, and need another one.
    if used != 1 + sum(map(len, indexes)) + len(_MINE) or max(map(len, indexes)) > _INDEX_PAGES_MAX:
        seen.problems.append(f"{used} pages are in use for {len(_MINE)} messages of {len(indexes)} queues")
    with open_small(path) as store:
        if (again := all_in(store)) != in_queues(each for mine in _MINE for each in entries_of(mine)):
            seen.problems.append(f"{_MINE} were put when all else was removed, and {again} are there")


def _check(path: Path, seen: Observation, when: str) -> None:
    try:
        seen.problems += [f"{when}: {problem}" for problem in check_page_store(path)]
    except NotFoundError:
        if when != "before it was opened":  # it was being made
            raise
