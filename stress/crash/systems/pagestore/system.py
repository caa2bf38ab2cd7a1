"""The system of a page store (`binlog.pagestore`): inspected, opened, read, emptied and put into again.

TX_PUT and TX_ACK name messages that a transaction puts and removes; PUTS_SYNCED promises everything done before; GOT
names a message that a process found after opening, and OPENED says that these were all.

1. The store has the state after one of its transactions: all promised ones are included and none that was not tried;
   each is whole, in the order of priorities and keys; transactions prepared until then still hold their messages.  A
   backup has the state of one moment between its call and its return.
2. `check` reports nothing, before opening and after: each page is in use or free.
3. The store can be used further.
4. A finished backup is a store; an unfinished one is a store or is refused.
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
from stress.crash.failure_modes.fault import FAULTS, Fault, FaultOutcome
from stress.crash.marks import Values
from stress.crash.preloaded.injector import Kind
from stress.crash.system import Crash, ProblemCollector, ProcessContext, Scenario, System
from stress.crash.systems.messages.marks import Identity, Mark, MarkKind, mark_of, short_message_of
from stress.crash.systems.messages.system import FAULT_KINDS
from stress.crash.systems.pagestore.actor import (
    COMMIT,
    PREPARE,
    QUEUES,
    SCENARIOS,
    PageStoreActor,
    all_in,
    backups_in,
    number_of,
    open_small,
    priority_of,
    put_into,
    queues_of,
)

_CHECKER = 99
_INDEX_PAGES_MAX = 2
_CALLS_ABOUT = 100
_MINE = [Identity(_CHECKER, 0, number) for number in range(1, 9)]

Entry = tuple[str, Identity]
Contents = dict[str, list[Identity]]
StoreContents = tuple[Contents, list[int]]


@dataclass
class _Transaction:
    """A transaction.  kind: 0 for a commit, otherwise what it does to the prepared transaction `number`.  tx: its
    number in its process.
    """

    tx: int = 0
    put: list[Entry] = field(default_factory=list)
    removed: set[Entry] = field(default_factory=set)
    kind: int = 0
    number: int = 0


@dataclass(frozen=True)
class State:
    """The content of a store.

    order: messages with their queues, in the order of their keys, held by a transaction or not.
    prepared: transactions, with the messages that each puts and removes.
    """

    order: tuple[Entry, ...] = ()
    prepared: Mapping[int, _Transaction] = field(default_factory=dict)

    def after(self, transaction: _Transaction) -> State:
        """Return the state after a transaction."""
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
    def readable(self) -> StoreContents:
        """The content that a reader finds: messages as the queues deliver them, and prepared transactions."""
        held = {each for one in self.prepared.values() for each in (*one.put, *one.removed)}
        return in_queues([each for each in self.order if each not in held]), [*self.prepared]


@dataclass
class Expectation:
    """The state of a store according to the marks until some tick.

    base: the state when the last process had opened the store.
    tried: the state after each transaction since then whose commit was tried, in order; the first `done` have returned,
        and the first `durable` are promised.
    backups: the states that each backup may have, by its number.  finished: the backups that returned.
    wrong: states that a process found and that could not be.
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
    _process_number: int = 0

    def add(self, values: Values) -> None:
        """Add one mark."""
        mark = mark_of(values)
        if mark.process != self._process_number:  # the process before has died in the middle
            self._process_number, self._found, self._backup = mark.process, [], 0
            self._next = _Transaction()
        match mark.kind:
            case MarkKind.GOT:
                self._found.append((QUEUES[mark.thread], mark.message))
            case MarkKind.OPENED:
                self._open()
            case MarkKind.TX_PUT:
                self._of(mark).put += entries_of(mark.message)
            case MarkKind.TX_ACK:
                self._of(mark).removed.add((QUEUES[mark.thread], mark.message))
            case MarkKind.TX_TRIED:
                self._try(mark)
            case MarkKind.TX_DROPPED:
                self._drop(mark)
            case MarkKind.TX_DONE:
                self.done = len(self.tried)
            case MarkKind.PUTS_SYNCED:
                self.durable = self.done
            case MarkKind.BACKUP_TRIED:
                self._backup = mark.message.number
                self.backups[self._backup] = [self._now]
            case MarkKind.BACKUP_DONE:
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
        self.tried.append(self._now.after(tried))
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
        """Promise every call that returned."""
        self.durable = self.done

    @property
    def promised(self) -> int:
        """The number of promised transactions."""
        return self.durable

    def states(self, tried_count: int) -> Iterator[State]:
        """Yield the possible states: from the last promised transaction to the last of `tried_count`."""
        yield from [self.base, *self.tried][self.durable : max(tried_count, self.durable) + 1]

    def _open(self) -> None:
        messages = [each for each in self._found if each[1].process]
        readable = in_order(messages), [number for _, (process_number, _, number) in self._found if not process_number]
        states = [state for state in self.states(len(self.tried)) if state.readable == readable]
        if not states:
            self.wrong.append(f"a process found {readable} after opening the store")
        self.base = states[0] if states else State(tuple(messages))
        self.tried, self.done, self.durable = [], 0, 0
        self._found, self._next, self._last = [], _Transaction(), 0


def entries_of(identity: Identity) -> list[Entry]:
    """Return a message with each of its queues."""
    return [(queue, identity) for queue in queues_of(identity)]


def in_order(readable: Iterable[Entry]) -> Contents:
    """Group messages by queue, in the order in which they were found."""
    contents: Contents = {queue: [] for queue in QUEUES}
    for queue, identity in readable:
        contents[queue].append(identity)
    return contents


def in_queues(there: Iterable[Entry]) -> Contents:
    """Group messages by queue, in the order of delivery; there: in the order in which they were put."""
    return in_order(sorted(there, key=lambda each: -priority_of(each[1])))


@dataclass(slots=True)
class Observation:
    """The observation of a state.

    problems: violations that do not depend on the marks.  readable: the messages in the queues, and the prepared
        transactions.
    backups: the same for each backup, by number; None for one that is refused, or still empty.
    """

    problems: list[str] = field(default_factory=list)
    readable: StoreContents | None = None
    backups: dict[int, StoreContents | None] = field(default_factory=dict)


class PageStoreSystem(System[Expectation, Observation]):
    """See the module."""

    name = "pagestore"
    noun = "pagestore"
    scenarios: ClassVar[Mapping[str, Scenario]] = SCENARIOS
    # Space runs out at the calls that meet it on a disk: the log's file has its blocks already.
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
        self.workloads = {name: self.repeated(each, 2) for name, each in SCENARIOS.items() if name != "all"}
        self.workloads["killed"] = self.killed(SCENARIOS["all"], SCENARIOS["all"], _CALLS_ABOUT)
        self.workloads["recovery"] = self.continued(SCENARIOS["all"])

    def background_reports(self, fault: Fault) -> bool:
        """Whether a later call, or closing, may report a failure of background work."""
        return self.may_poison(fault)

    def wrong_errors(self, fault: Fault, outcome: FaultOutcome, expected: Expectation) -> list[str]:
        """Return the violations in the errors that a fault caused."""
        wrong = super().wrong_errors(fault, outcome, expected)
        return [*wrong, "nothing is damaged, but there was CorruptError"] if "CorruptError" in outcome.errors else wrong

    def open(self, path: Path, process: ProcessContext, variant: str) -> PageStoreActor:
        """Open the store."""
        with ExitStack() as failing:
            actor = PageStoreActor(failing.enter_context(open_small(path)), process)
            failing.pop_all()
        return actor

    def expectation(self) -> Expectation:
        """Return an empty expectation."""
        return Expectation()

    def observe(
        self, path: Path, marks: Sequence[Values] = (), *, again: bool = False, stays: bool = False
    ) -> Observation:
        """Inspect everything; unless it must stay, empty the queues, put more, and check them."""
        seen = Observation()
        with ProblemCollector(seen.problems):
            seen.backups = {number: _read_backup(each, seen) for number, each in backups_in(path).items()}
            if path.exists():
                _check(path, seen, "before opening")
            seen.readable = read_store(path)
            _check(path, seen, "after opening")
            if not stays:
                _use_further(path, seen)
                _check(path, seen, "after use")
        return seen

    def compare(
        self, seen: Observation, least: Expectation, most: Expectation, crash: Crash = Crash.POWER
    ) -> list[str]:
        """Return the violations in the queues and in backups."""
        wrong = [*least.wrong]
        # A process may have opened the store between the two; its base then includes the calls tried before.
        tried_count = len(most.tried) if most.base == least.base else 0
        states = [state.readable for state in least.states(tried_count)]
        if seen.readable is not None and seen.readable not in states:
            wrong.append(
                f"{seen.readable} is none of the {len(states)} possible states, the first of which is {states[0]}"
            )
        wrong += [f"the backup {number} was finished, but is no store" for number in sorted(least.finished)
                  if seen.readable is not None and seen.backups.get(number) is None]  # fmt: skip
        for number, readable in seen.backups.items():
            may_be = [state.readable for state in (*least.backups.get(number, ()), *most.backups.get(number, ()))]
            if readable is not None and readable not in may_be:
                wrong.append(f"the backup {number} has {readable}, none of the {len(may_be)} possible states")
        return wrong

    def check_after_power_cut(self, before: Observation, after: Observation) -> list[str]:
        """Return the violations after a power cut."""
        if after.readable == before.readable:
            return []
        return [f"it had {before.readable} when it was closed, but has {after.readable} now"]


def read_store(path: Path) -> StoreContents:
    """Open the store and return its content, which stays.  Raises: the errors of opening."""
    with open_small(path) as store:
        return all_in(store), [number_of(each.xid) for each in store.prepared]


def _read_backup(path: Path, seen: Observation) -> StoreContents | None:
    if not any(path.iterdir()):
        return None
    if (path / LOG_FILE).exists():
        seen.problems += [f"{path.name}: {problem}" for problem in check_page_store(path)]
        return read_store(path)
    with suppress(CorruptError):
        return read_store(path)
    return None


def _use_further(path: Path, seen: Observation) -> None:
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
    # The messages may begin in the page of the last one before, and then need one more.
    if used != 1 + sum(map(len, indexes)) + len(_MINE) or max(map(len, indexes)) > _INDEX_PAGES_MAX:
        seen.problems.append(f"{used} pages are in use for {len(_MINE)} messages of {len(indexes)} queues")
    with open_small(path) as store:
        if (again := all_in(store)) != in_queues(each for mine in _MINE for each in entries_of(mine)):
            seen.problems.append(f"{_MINE} were put after all others were removed, but {again} exist")


def _check(path: Path, seen: Observation, when: str) -> None:
    try:
        seen.problems += [f"{when}: {problem}" for problem in check_page_store(path)]
    except NotFoundError:
        if when != "before opening":  # a process died while it was being created
            raise
