"""The marks of processes that append to a journal, for their calls and for the results of loads."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from binlog.format.journal.record import Kind
from binlog.journal.record import Loaded, Record, TransactionContent
from stress.crash.marks import Values
from stress.crash.records import Identity, identity_of

CHECKERS = (199, 198)
"""The writers of records that the checker appends."""


class Operation(NamedTuple):
    """One call that appends a record.

    writer, number: the actor, and the index of the call.  kind: of the record.
    tx_id, record_id: 0 if it has none.
    """

    writer: int
    number: int
    kind: Kind
    tx_id: int = 0
    record_id: int = 0

    @property
    def identity(self) -> Identity:
        """The writer and number."""
        return self.writer, self.number


class MarkKind(enum.IntEnum):
    """TRIED and LOADING come before the call, the others after it.

    The marks of a load's result are between `LOADING` and `LOADED`, which says that they are complete.
    """

    TRIED = 1  # a call
    REFUSED = 2  # an error said that it did nothing
    DURABLE = 3  # this call, and all of its writer before it, are promised to survive a power cut
    LOADING = 4
    RETURNED = 5  # a load returned the body of this call
    PREPARED = 6  # this transaction is prepared
    FAILED = 7  # this transaction has failed
    LOADED = 8  # record_id: the number of problems reported


class Mark(NamedTuple):
    """One mark."""

    mark_kind: MarkKind
    operation: Operation


def mark_of(values: Values) -> Mark:
    """Return the mark with these values."""
    mark_kind, writer, number, kind, tx_id, record_id, *_ = values
    return Mark(MarkKind(mark_kind), Operation(writer, number, Kind(kind), tx_id, record_id))


def plain_mark(mark_kind: MarkKind, *, tx_id: int = 0, record_id: int = 0) -> Mark:
    """Return a mark that belongs to no call."""
    return Mark(mark_kind, Operation(0, 0, Kind.ADD, tx_id, record_id))


@dataclass(frozen=True, slots=True)
class TransactionCalls:
    """A transaction: the calls whose bodies it has, adds and updates before deletes, and the call that prepared it.

    record_ids: of the records that it adds, updates or deletes.
    """

    parts: tuple[Identity, ...]
    extra: Identity | None
    record_ids: frozenset[int]


@dataclass(slots=True)
class LoadedState:
    """The result of a load, with each body resolved to the call that appended it.

    records: the calls whose bodies were returned, in order, with the id of each record, and whether it is an update.
    problems: the rules broken.  keeps_ids: whether the layout stores the largest id.
    wrong: violations, such as bodies that were never appended.
    """

    records: dict[Identity, tuple[int, bool]] = field(default_factory=dict)
    prepared: dict[int, TransactionCalls] = field(default_factory=dict)
    failed: dict[int, TransactionCalls] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    id_max: int = 0
    keeps_ids: bool = False
    wrong: list[str] = field(default_factory=list)

    def marks(self) -> Iterator[Mark]:
        """Yield the marks of this result."""
        for identity in self.records:
            yield Mark(MarkKind.RETURNED, Operation(*identity, Kind.ADD))
        for tx_id in self.prepared:
            yield plain_mark(MarkKind.PREPARED, tx_id=tx_id)
        for tx_id in self.failed:
            yield plain_mark(MarkKind.FAILED, tx_id=tx_id)
        yield plain_mark(MarkKind.LOADED, record_id=len(self.problems))


def loaded_state(loaded: Loaded, *, keeps_ids: bool) -> LoadedState:
    """Return the result of a load."""
    problems = [problem.rule for problem in loaded.problems]
    state = LoadedState(problems=problems, keeps_ids=keeps_ids, id_max=loaded.id_max)
    for record in loaded.records:
        identity = _identity(record, state.wrong)
        if identity is None:
            continue
        if identity in state.records:
            state.wrong.append(f"the body of {identity} is returned twice")
        state.records[identity] = record.record_id, record.is_update
    for each, into in ((loaded.prepared, state.prepared), (loaded.failed, state.failed)):
        for content in each:
            if content.tx_id in into:
                state.wrong.append(f"the transaction {content.tx_id} is reported twice")
            into[content.tx_id] = _content(content, state.wrong)
    return state


def _content(content: TransactionContent, wrong: list[str]) -> TransactionCalls:
    parts = [_identity(item, wrong) for item in (*content.records, *content.deletes)]
    return TransactionCalls(
        tuple(part for part in parts if part is not None),
        identity_of(content.extra),
        frozenset(record.record_id for record in content.records) | {each.record_id for each in content.deletes},
    )


def _identity(item: object, wrong: list[str]) -> Identity | None:
    body: bytes = item.body  # type: ignore[attr-defined]
    identity = identity_of(body)
    if identity is None:
        wrong.append(f"a body was never appended: {body[:40]!r}")
    elif isinstance(item, Record) and item.user_type != user_type_of(identity):
        wrong.append(f"the user's type of {identity} is {item.user_type}")
    return identity


def user_type_of(identity: Identity) -> int:
    """Return the user's type of a call's record."""
    return identity[1] % 251
