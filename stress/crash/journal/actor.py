"""One who appends to a journal, and marks each call before it is made and what it was promised after."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from binlog.errors import AccessError, FullError
from binlog.format.journal.block import BLOCK_BYTES
from binlog.format.journal.record import Kind
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from stress.crash.journal.loads import Told, user_type_of
from stress.crash.journal.marks import Mark, MarkKind, Operation
from stress.crash.ledger import record_bytes

_ID_BITS = 20
_FUTURE_SECONDS = 60.0
_EXTRA_BYTES = 40
# In files of several blocks, so that some records are over the borders of these.
_TIMES_LARGER = 40

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


class Witness(Protocol):
    """Where marks go: into a trace, or into memory that is shared with who judges."""

    def mark(self, mark: Mark) -> None:
        """Note a mark, now."""


class Actor:
    """One of those who append; its ids are its own, and no other's.

    writer: who it is.  count: of its calls.  alive: ids of records that it may update or delete.
    prepared: ids of transactions.
    """

    def __init__(self, witness: Witness, writer: int, count: int = 0) -> None:
        self.count = count
        self.alive: list[int] = []
        self.prepared: list[int] = []
        self._witness = witness
        self.writer = writer
        self._futures: deque[tuple[Operation, Future[None]]] = deque()

    def go_on_from(self, told: Told) -> None:
        """Whatever a load told is this one's now, but for what prepared transactions may yet change."""
        held = {record_id for content in told.prepared.values() for record_id in content.record_ids}
        there = dict.fromkeys(record_id for record_id, is_update in told.records.values() if not is_update)
        self.alive = [record_id for record_id in there if record_id not in held]
        self.prepared = [*told.prepared]

    def new_id(self) -> int:
        """An id that nobody else has: that of the next call."""
        return self.writer << _ID_BITS | self.count + 1

    def add(self, journal: Journal, sync: Sync = Sync.WAIT, *, size: int = 0) -> int:
        """Add a record; its id.  size: of the body, 0 for one of which some ten fill a file."""
        record_id = self.new_id()
        self._call(journal, Kind.ADD, sync, record_id=record_id, size=size)
        self.alive.append(record_id)
        return record_id

    def update(self, journal: Journal, record_id: int, sync: Sync = Sync.WAIT) -> None:
        """Add to a record."""
        self._call(journal, Kind.UPDATE, sync, record_id=record_id)

    def delete(self, journal: Journal, record_id: int, sync: Sync = Sync.WAIT) -> None:
        """Delete a record."""
        self.alive.remove(record_id)
        self._call(journal, Kind.DELETE, sync, record_id=record_id)

    def add_tx(self, journal: Journal, tx_id: int, sync: Sync = Sync.LATER) -> int:
        """Add a record with a transaction; its id, which is alive once that is committed."""
        record_id = self.new_id()
        self._call(journal, Kind.ADD_TX, sync, tx_id=tx_id, record_id=record_id)
        return record_id

    def update_tx(self, journal: Journal, tx_id: int, record_id: int, sync: Sync = Sync.LATER) -> None:
        """Add to a record with a transaction."""
        self._call(journal, Kind.UPDATE_TX, sync, tx_id=tx_id, record_id=record_id)

    def delete_tx(self, journal: Journal, tx_id: int, record_id: int, sync: Sync = Sync.LATER) -> None:
        """Delete a record with a transaction."""
        self._call(journal, Kind.DELETE_TX, sync, tx_id=tx_id, record_id=record_id)

    def prepare(self, journal: Journal, tx_id: int, sync: Sync = Sync.WAIT) -> None:
        """Prepare a transaction."""
        self._call(journal, Kind.PREPARE, sync, tx_id=tx_id, size=_EXTRA_BYTES)

    def commit(self, journal: Journal, tx_id: int, sync: Sync = Sync.WAIT) -> None:
        """Commit a transaction."""
        self._call(journal, Kind.COMMIT, sync, tx_id=tx_id)

    def rollback(self, journal: Journal, tx_id: int, sync: Sync = Sync.WAIT) -> None:
        """Roll a transaction back."""
        self._call(journal, Kind.ROLLBACK, sync, tx_id=tx_id)

    def settle(self, *, wait: bool = True) -> None:
        """Mark the calls whose futures are done; wait for all of them where told so."""
        while self._futures and (wait or self._futures[0][1].done()):
            operation, future = self._futures.popleft()
            future.result(timeout=_FUTURE_SECONDS)
            self._witness.mark(Mark(MarkKind.DURABLE, operation))

    def closed(self) -> None:
        """The journal was closed, which promises all."""
        self._futures.clear()
        if self.count:
            self._witness.mark(Mark(MarkKind.DURABLE, Operation(self.writer, self.count - 1, Kind.ADD)))

    def _call(
        self, journal: Journal, kind: Kind, sync: Sync, *, tx_id: int = 0, record_id: int = 0, size: int = 0
    ) -> None:
        operation = Operation(self.writer, self.count, kind, tx_id, record_id)
        given: list[Any] = [id_ for id_ in (tx_id, record_id) if id_]
        if kind in _TYPED:
            given.append(user_type_of(operation.identity))
        if kind not in (Kind.DELETE, Kind.COMMIT, Kind.ROLLBACK):
            given.append(_body(journal, operation, size))
        self._witness.mark(Mark(MarkKind.TRIED, operation))
        self.count += 1
        try:
            future = _CALLS[kind](journal, *given, sync=sync)
        except (FullError, AccessError):
            self._witness.mark(Mark(MarkKind.REFUSED, operation))
            raise
        if sync is Sync.WAIT:
            self._witness.mark(Mark(MarkKind.DURABLE, operation))
        elif future is not None:
            self._futures.append((operation, future))


def _body(journal: Journal, operation: Operation, size: int) -> bytes:
    body = record_bytes(*operation.identity, size)
    if size or journal._options.file_bytes < 2 * BLOCK_BYTES:
        return body
    return record_bytes(*operation.identity, _TIMES_LARGER * len(body))
