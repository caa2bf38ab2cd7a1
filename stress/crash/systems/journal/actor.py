"""A process that appends to a journal in random steps, and marks each call before and after it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from binlog.format.journal.block import BLOCK_BYTES
from binlog.format.journal.record import Kind
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from stress.crash.records import record_bytes
from stress.crash.system import Actor, ProcessContext, Scenario, Step
from stress.crash.systems.journal.marks import LoadedState, Mark, MarkKind, Operation, user_type_of

_THREADS_MAX = 4
_ID_BITS = 20
_FUTURE_SECONDS = 60.0
_EXTRA_BYTES = 40
# In files of several blocks, so that some records cross a block's border.
_TIMES_LARGER = 20

_CALLS: dict[Kind, Callable[..., Any]] = {
    Kind.ADD: Journal.append_add,
    Kind.UPDATE: Journal.append_update,
    Kind.DELETE: Journal.append_delete,
    Kind.ADD_TX: Journal.append_add_tx,
    Kind.UPDATE_TX: Journal.append_update_tx,
    Kind.DELETE_TX: Journal.append_delete_tx,
    Kind.PREPARE: Journal.prepare,
    Kind.COMMIT: Journal.commit,
    Kind.ROLLBACK: Journal.rollback,
}
_TYPED = (Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX)
_MIXED = (Sync.WAIT, Sync.FUTURE, Sync.LATER)


class JournalActor(Actor):
    """An actor whose ids no other actor uses.

    writer: its number.  alive: ids of records that it may update or delete.  syncs: the modes that it draws from.
    """

    def __init__(self, journal: Journal, process: ProcessContext, state: LoadedState | None, thread: int = 0) -> None:
        """state: the result of a load; the actor takes over its records, except those that prepared transactions
        hold."""
        super().__init__(process)
        self.journal = journal
        self.writer = process.number * _THREADS_MAX + thread
        self.alive: list[int] = []
        self.syncs: tuple[Sync, ...] = _MIXED
        self._prepared: list[int] = []
        self.count = 0
        self._others: list[JournalActor] = []
        self._futures: deque[tuple[Operation, Future[None]]] = deque()
        if state is not None:
            held = {record_id for content in state.prepared.values() for record_id in content.record_ids}
            there = dict.fromkeys(record_id for record_id, is_update in state.records.values() if not is_update)
            self.alive = [record_id for record_id in there if record_id not in held]
            self._prepared = [*state.prepared]

    def for_thread(self, thread: int) -> JournalActor:
        """Return an actor for another thread."""
        chance = random.Random(f"{self._chance.random()}/{thread}")
        other = JournalActor(
            self.journal, ProcessContext(self._process.witness, self._process.number, chance), None, thread
        )
        self._others.append(other)
        return other

    def append_one(self) -> None:
        """Add a record, durably."""
        self.add_one(Sync.WAIT)

    def close(self) -> None:
        """Close the journal, which promises everything."""
        self.journal.close()
        for actor in (self, *self._others):
            actor._futures.clear()
            if actor.count:
                self.mark(Mark(MarkKind.DURABLE, Operation(actor.writer, actor.count - 1, Kind.ADD)))

    def add_one(self, sync: Sync) -> int:
        """Add a record and return its id."""
        record_id = self.new_id()
        self.call(Kind.ADD, sync, record_id=record_id)
        self.alive.append(record_id)
        return record_id

    def new_id(self) -> int:
        """Return an id that no other actor uses: that of the next call."""
        return self.writer << _ID_BITS | self.count + 1

    def add(self) -> None:
        """Add a record."""
        self.add_one(self._sync())
        self._mark_done(wait=False)

    def update(self) -> None:
        """Update a record; add one if there is none."""
        if not self.alive:
            return self.add()
        self.call(Kind.UPDATE, self._sync(), record_id=self._chance.choice(self.alive))
        return self._mark_done(wait=False)

    def delete(self) -> None:
        """Delete a record, most often an old one; add one if there are few."""
        if len(self.alive) < 2:
            return self.add()
        record_id = self._chance.choice(self.alive[: self._chance.randint(1, len(self.alive))])
        self.alive.remove(record_id)
        self.call(Kind.DELETE, self._sync(), record_id=record_id)
        return self._mark_done(wait=False)

    def transaction(self) -> None:
        """Commit or roll back a transaction, sometimes prepared before."""
        tx_id, added = self._begin()
        if self._chance.random() < 0.3:
            self.prepare(tx_id)
        if self._chance.random() < 0.75:
            self.call(Kind.COMMIT, self._sync(), tx_id=tx_id)
            self.alive += added
        else:
            self.call(Kind.ROLLBACK, self._sync(), tx_id=tx_id)
        self._mark_done(wait=False)

    def leave(self) -> None:
        """Leave a transaction unfinished, or prepared, with or without records."""
        if self._chance.random() < 0.2:
            tx_id = self.new_id()
        else:
            tx_id, _ = self._begin()
            if self._chance.random() < 0.3:
                return
        self.prepare(tx_id)
        self._prepared.append(tx_id)
        self._mark_done(wait=False)

    def end_prepared(self) -> None:
        """Commit or roll back a prepared transaction; add a record if there is none."""
        if not self._prepared:
            return self.add()
        tx_id = self._prepared.pop(self._chance.randrange(len(self._prepared)))
        self.call(Kind.COMMIT if self._chance.random() < 0.6 else Kind.ROLLBACK, self._sync(), tx_id=tx_id)
        return self._mark_done(wait=False)

    def reclaim(self) -> None:
        """Reclaim dead files now."""
        self.journal.reclaim()

    def sweep(self) -> None:
        """Delete all but the last records in a transaction without waiting, and reclaim the files that this kills.

        If a file were freed before the commit is on the disk, a crash would leave half of the transaction.
        """
        if len(self.alive) < 4:
            return self.add()
        tx_id = self.new_id()
        for record_id in self.alive[:-2]:
            self.alive.remove(record_id)
            self.call(Kind.DELETE_TX, Sync.LATER, tx_id=tx_id, record_id=record_id)
        self.call(Kind.COMMIT, Sync.LATER, tx_id=tx_id)
        self.journal.reclaim()
        return None

    def compact(self) -> None:
        """Compact the journal."""
        self.journal.compact()

    def await_futures(self) -> None:
        """Wait for all futures."""
        self._mark_done(wait=True)

    def prepare(self, tx_id: int) -> None:
        """Prepare a transaction."""
        self.call(Kind.PREPARE, self._sync(), tx_id=tx_id, size=_EXTRA_BYTES)

    def _begin(self) -> tuple[int, list[int]]:
        """Begin a transaction of some records; return its id, and the records that it adds.

        Records that it updates or deletes are removed from `alive`, so that no other call touches them meanwhile.
        """
        chance = self._chance
        tx_id, added = self.new_id(), []
        for _ in range(chance.randint(2, 5)):
            sync = Sync.LATER if chance.random() < 0.8 else self._sync()
            kind = chance.choices((Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX), (3, 1, 1))[0]
            if kind is Kind.ADD_TX or len(self.alive) < 2:
                added.append(self.new_id())
                self.call(Kind.ADD_TX, sync, tx_id=tx_id, record_id=added[-1])
            else:
                record_id = chance.choice(self.alive)
                self.alive.remove(record_id)
                self.call(kind, sync, tx_id=tx_id, record_id=record_id)
            if chance.random() < 0.3:
                self.add()  # interleaved with the transaction's
        return tx_id, added

    def _sync(self) -> Sync:
        return self._chance.choice(self.syncs)

    def _mark_done(self, *, wait: bool) -> None:
        """Mark the calls whose futures are done; if `wait`, wait for all of them."""
        while self._futures and (wait or self._futures[0][1].done()):
            operation, future = self._futures.popleft()
            future.result(timeout=_FUTURE_SECONDS)
            self.mark(Mark(MarkKind.DURABLE, operation))

    def call(self, kind: Kind, sync: Sync, *, tx_id: int = 0, record_id: int = 0, size: int = 0) -> None:
        """Make one call.  size: of its body; 0 for a size of which some ten fill a file."""
        operation = Operation(self.writer, self.count, kind, tx_id, record_id)
        given: list[Any] = [id_ for id_ in (tx_id, record_id) if id_]
        if kind in _TYPED:
            given.append(user_type_of(operation.identity))
        if kind not in (Kind.DELETE, Kind.COMMIT, Kind.ROLLBACK):
            given.append(self._body(operation, size))
        self.mark(Mark(MarkKind.TRIED, operation))
        self.count += 1
        with self.refusing(Mark(MarkKind.REFUSED, operation)):
            future = _CALLS[kind](self.journal, *given, sync=sync)
        if sync is Sync.WAIT:
            self.mark(Mark(MarkKind.DURABLE, operation))
        elif future is not None:
            self._futures.append((operation, future))

    def _body(self, operation: Operation, size: int) -> bytes:
        body = record_bytes(*operation.identity, size)
        if size or self.journal._options.file_bytes < 2 * BLOCK_BYTES:
            return body
        return record_bytes(*operation.identity, _TIMES_LARGER * len(body))


_A = JournalActor
RECORDS: Mapping[Step, int] = {_A.add: 4, _A.update: 2, _A.delete: 1}
TRANSACTIONS: Mapping[Step, int] = {_A.transaction: 4, _A.add: 1, _A.update: 1, _A.leave: 1, _A.end_prepared: 1}
REUSE: Mapping[Step, int] = {_A.add: 8, _A.update: 2, _A.delete: 4, _A.transaction: 1, _A.reclaim: 1, _A.sweep: 1}
COMPACTION: Mapping[Step, int] = {
    _A.add: 6, _A.update: 3, _A.delete: 6, _A.transaction: 2, _A.leave: 1, _A.compact: 2, _A.end_prepared: 1,
}  # fmt: skip
ONLY_ADDED: Mapping[Step, int] = {_A.add: 4, _A.update: 2}
ALL: Mapping[Step, int] = {**TRANSACTIONS, **COMPACTION, _A.reclaim: 1}


def take_steps(actor: JournalActor, steps: Mapping[Step, int], count: int) -> None:
    """Take `count` steps, each drawn by its weight."""
    for step in Scenario(steps, count).chosen(actor._chance):
        step(actor)
