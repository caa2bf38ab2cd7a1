"""The journal: records with ids that are added, updated and deleted, alone or in transactions."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Literal, overload

from binlog.errors import NotFoundError, StateError
from binlog.format.journal.record import Kind, pack_counts
from binlog.format.problem import Problem
from binlog.journal.ledger import FilePins, Operation, Transaction
from binlog.journal.lifecycle import JournalLifecycle
from binlog.journal.options import Sync

_ADD, _UPDATE, _ADD_TX, _UPDATE_TX, _DELETE_TX, _DELETE, _PREPARE, _COMMIT, _ROLLBACK = map(int, Kind)
_Blocking = Literal[Sync.WAIT, Sync.LATER]
_Async = Literal[Sync.FUTURE]
_TryResult = Future[None] | Literal[False]


class Journal(JournalLifecycle):
    """The journal in a folder.  Only one process may have it open; its threads may share it.

    Start it, which makes this process its owner; load it, which returns its records; then append.  The effect of a call
    is visible to later calls as soon as it returns; `sync` says when it is durable.  A future is done when everything
    appended up to its call is durable, and raises PoisonedError if that failed.  Futures are done in the order of their
    calls.  Their callbacks run one after the other in a thread of the journal.

    If a signal handler raises while a call waits for the disk, the effect of the call stays.  It becomes durable with
    the next record that is appended with Sync.WAIT, or with `close`, at the latest.
    """

    def new_id(self) -> int:
        """Return an id for a record or a transaction, larger than every id that the journal has seen.

        Raises: StateError before the load; ClosedError; PoisonedError.
        """
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            self._id += 1
            return self._id

    @overload
    def append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Blocking = ...) -> None: ...
    @overload
    def append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Async) -> Future[None]: ...
    def append_add(self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Add a record.

        record_id: an i64.  user_type: 0 to 255.  body: as many bytes as fit in a file.
        Raises: StateError if a record has this id, if an open transaction adds one, or if the journal is not loaded;
        ValueError; FullError if the record fits in no file or the disk is full; PoisonedError; ClosedError.
        """
        done = self._append_plain(_ADD, record_id, user_type, body, sync)
        if done is False:
            raise StateError(_already(record_id))
        return done

    @overload
    def append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Blocking = ...) -> None: ...
    @overload
    def append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Async) -> Future[None]: ...
    def append_update(
        self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT
    ) -> Future[None] | None:
        """Add an update to a record; the record and its earlier updates stay.

        Raises: NotFoundError if there is no such record, even if an open transaction adds it; and as `append_add`.
        """
        done = self._append_plain(_UPDATE, record_id, user_type, body, sync)
        if done is False:
            raise NotFoundError(f"there is no record {record_id}")
        return done

    @overload
    def append_delete(self, record_id: int, *, sync: _Blocking = ...) -> None: ...
    @overload
    def append_delete(self, record_id: int, *, sync: _Async) -> Future[None]: ...
    def append_delete(self, record_id: int, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Delete a record with all its updates.  Raises: as `append_update`."""
        done = self._append_plain(_DELETE, record_id, 0, b"", sync)
        if done is False:
            raise NotFoundError(f"there is no record {record_id}")
        return done

    @overload
    def try_append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Blocking = ...) -> bool: ...
    @overload
    def try_append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Async) -> _TryResult: ...
    def try_append_add(
        self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT
    ) -> _TryResult | bool:
        """Add as `append_add`, but return False if the id is taken; else True or a future."""
        return _try_result(self._append_plain(_ADD, record_id, user_type, body, sync))

    @overload
    def try_append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Blocking = ...) -> bool: ...
    @overload
    def try_append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Async) -> _TryResult: ...
    def try_append_update(
        self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT
    ) -> _TryResult | bool:
        """Update as `append_update`, but return False if there is no such record; else True or a future."""
        return _try_result(self._append_plain(_UPDATE, record_id, user_type, body, sync))

    @overload
    def try_append_delete(self, record_id: int, *, sync: _Blocking = ...) -> bool: ...
    @overload
    def try_append_delete(self, record_id: int, *, sync: _Async) -> _TryResult: ...
    def try_append_delete(self, record_id: int, *, sync: Sync = Sync.WAIT) -> _TryResult | bool:
        """Delete as `append_delete`, but return False if there is no such record; else True or a future."""
        return _try_result(self._append_plain(_DELETE, record_id, 0, b"", sync))

    @overload
    def append_add_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Blocking = ...
    ) -> None: ...
    @overload
    def append_add_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Async
    ) -> Future[None]: ...
    def append_add_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.LATER
    ) -> Future[None] | None:
        """Add a record in a transaction.  The first record that names a transaction begins it.

        The record becomes visible when the transaction is committed, and durable with the commit.
        Raises: StateError if the transaction is prepared; and as `append_add`.
        """
        return self._append_tx(_ADD_TX, tx_id, record_id, user_type, body, sync)

    @overload
    def append_update_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Blocking = ...
    ) -> None: ...
    @overload
    def append_update_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Async
    ) -> Future[None]: ...
    def append_update_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.LATER
    ) -> Future[None] | None:
        """Update a record in a transaction, without a check whether the record exists.

        Raises: as `append_add_tx`, but not for an id that is taken.
        """
        return self._append_tx(_UPDATE_TX, tx_id, record_id, user_type, body, sync)

    @overload
    def append_delete_tx(self, tx_id: int, record_id: int, body: bytes = ..., *, sync: _Blocking = ...) -> None: ...
    @overload
    def append_delete_tx(self, tx_id: int, record_id: int, body: bytes = ..., *, sync: _Async) -> Future[None]: ...
    def append_delete_tx(
        self, tx_id: int, record_id: int, body: bytes = b"", *, sync: Sync = Sync.LATER
    ) -> Future[None] | None:
        """Delete a record in a transaction, without a check whether the record exists.

        body: returned with the transaction by a load that finds it prepared.  Raises: as `append_update_tx`.
        """
        return self._append_tx(_DELETE_TX, tx_id, record_id, 0, body, sync)

    @overload
    def prepare(self, tx_id: int, extra: bytes = ..., *, sync: _Blocking = ...) -> None: ...
    @overload
    def prepare(self, tx_id: int, extra: bytes = ..., *, sync: _Async) -> Future[None]: ...
    def prepare(self, tx_id: int, extra: bytes = b"", *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Prepare a transaction, which may be empty: it waits for `commit` or `rollback`, even across a restart.

        extra: returned by the next load.
        Raises: StateError if the transaction is prepared already; FullError; PoisonedError; ClosedError.
        """
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            transaction = self._ledger.transactions.get(tx_id)
            if transaction is not None and transaction.prepared:
                raise StateError(f"the transaction {tx_id} is prepared")
            self._end_transaction(_PREPARE, tx_id, extra, _counts(transaction))
            pending = self._appender.when_durable(sync)
        return self._wait(pending)

    @overload
    def commit(self, tx_id: int, *, sync: _Blocking = ...) -> None: ...
    @overload
    def commit(self, tx_id: int, *, sync: _Async) -> Future[None]: ...
    def commit(self, tx_id: int, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Commit a transaction.  A crash before the commit is durable may undo all of it, never a part.

        Raises: NotFoundError if there is no such transaction; FullError; PoisonedError; ClosedError.
        """
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            self._end_transaction(_COMMIT, tx_id, b"", _counts(self._transaction(tx_id)))
            pending = self._appender.when_durable(sync)
        return self._wait(pending)

    @overload
    def rollback(self, tx_id: int, *, sync: _Blocking = ...) -> None: ...
    @overload
    def rollback(self, tx_id: int, *, sync: _Async) -> Future[None]: ...
    def rollback(self, tx_id: int, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Roll back a transaction.  Raises: as `commit`."""
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            self._transaction(tx_id)
            self._end_transaction(_ROLLBACK, tx_id, b"", b"")
            pending = self._appender.when_durable(sync)
        return self._wait(pending)

    def reclaim(self) -> int:
        """Free all dead files, which the journal also does on its own, and return how many.

        Blocks: for one sync, and one more for each file.
        Raises: FullError or AccessError if a file could not be freed now; call again later.  StateError; ClosedError;
        PoisonedError.
        """
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
        return self._maintenance.reclaim()

    def compact(self) -> int:
        """Rewrite live records into fewer files, and return by how many files the journal shrank.

        The journal also compacts on its own.  A journal in a layout of JBoss Messaging's is never compacted: returns 0.
        Other threads may append meanwhile.  Damaged files, and files with records of an open transaction, stay as they
        are.
        Blocks: until the compaction is done.  Raises: FullError or AccessError, and nothing was changed; and as
        `reclaim`.
        """
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
        return self._maintenance.compact()

    def problems(self) -> list[Problem]:
        """Return the damage that compactions have found since the load.  Damaged files stay as they are.

        Raises: StateError; ClosedError; PoisonedError.
        """
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            return list(self._compactor.problems)

    def file_pins(self) -> list[FilePins]:
        """Return the pins of each file that has records, oldest first, without the file that takes appends.

        Blocks: for one pass over all live records.  Raises: StateError; ClosedError.
        """
        with self._guard, self._files_guard:
            if self._state != "loaded":
                self._refuse_state()
            return self._ledger.file_pins(self._files.data)

    def _append_plain(
        self, kind: int, record_id: int, user_type: int, body: bytes, sync: Sync
    ) -> Future[None] | Literal[False] | None:
        """Append a record outside of transactions.

        Returns False if the id is taken, for an add, or unknown, for an update or delete.
        """
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            appender = self._appender
            if (record_id in self._ledger.records) is (kind == _ADD):
                return False
            if kind == _ADD and record_id in self._ledger.being_added:
                return False
            file, size = self._append(kind, 0, record_id, user_type, body, b"")
            if kind == _DELETE:
                self._ledger.delete(record_id, file)
            else:
                self._ledger.add(record_id, file, size)
                if record_id > self._id:
                    self._id = record_id
            self._guard.changing = False
            pending = appender.when_durable(sync)
        return None if pending is None else self._wait(pending)

    def _append_tx(
        self, kind: int, tx_id: int, record_id: int, user_type: int, body: bytes, sync: Sync
    ) -> Future[None] | None:
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            appender = self._appender
            transaction = self._ledger.transactions.get(tx_id)
            if transaction is not None and transaction.prepared:
                raise StateError(f"the transaction {tx_id} is prepared")
            if kind == _ADD_TX and (record_id in self._ledger.records or record_id in self._ledger.being_added):
                raise StateError(_already(record_id))
            file, size = self._append(kind, tx_id, record_id, user_type, body, b"")
            self._ledger.add_operation(tx_id, Operation(kind, record_id, file, size))
            self._id = max(self._id, record_id, tx_id)
            self._guard.changing = False
            pending = appender.when_durable(sync)
        return None if pending is None else self._wait(pending)

    def _wait(self, pending: Future[None] | tuple[int, bool] | None) -> Future[None] | None:
        """Wait if the caller has to, without the guard; return the future if it asked for one."""
        if isinstance(pending, tuple):
            self._appender.wait(*pending)
            return None
        return pending

    def _transaction(self, tx_id: int) -> Transaction:
        if self._state != "loaded":
            self._refuse_state()
        transaction = self._ledger.transactions.get(tx_id)
        if transaction is None:
            raise NotFoundError(f"there is no transaction {tx_id}")
        return transaction


def _already(record_id: int) -> str:
    return f"there is a record {record_id} already, or an open transaction adds it"


def _try_result(done: _TryResult | None) -> _TryResult | bool:
    return True if done is None else done


def _counts(transaction: Transaction | None) -> bytes:
    """Pack the count of a transaction's records in each file, as its commit has them."""
    if transaction is None:
        return b""
    return pack_counts((file.header.record_id, count) for file, count in transaction.counts.items())
