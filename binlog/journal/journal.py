"""A journal: records by their ids, added, updated and deleted one by one or in transactions."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Literal, overload

from binlog.errors import NotFoundError, StateError
from binlog.format.journal.record import Kind, pack_counts
from binlog.format.problem import Problem
from binlog.journal.ledger import Kept, Operation, Transaction
from binlog.journal.lifecycle import JournalLife
from binlog.journal.options import Sync

_ADD, _UPDATE, _ADD_TX, _UPDATE_TX, _DELETE_TX, _DELETE, _PREPARE, _COMMIT, _ROLLBACK = map(int, Kind)
_Now = Literal[Sync.WAIT, Sync.LATER]
_Later = Literal[Sync.FUTURE]
_Tried = Future[None] | Literal[False]


class Journal(JournalLife):
    """The journal in a folder, for this process, whose threads may share it.

    It is started, which makes it this process's; loaded, which tells what is there; and then appended to.  What a call
    did is there for the calls behind it as soon as it returns; when it is on the disk is said with `sync`.  A future is
    done when all that was appended up to its call is on the disk, and has PoisonedError where that failed; futures are
    done in the order of their calls.  Their callbacks run in a thread of the journal, one after the other.

    If a signal handler raises while a call waits for the disk, what the call did stays.  It is on the disk with the
    next record of which a caller waits for that, or with `close`, at the latest.
    """

    def new_id(self) -> int:
        """An id for a record or a transaction: larger than all that the journal has met.

        Raises: StateError before the load; ClosedError; PoisonedError.
        """
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            self._id += 1
            return self._id

    @overload
    def append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...) -> None: ...
    @overload
    def append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Later) -> Future[None]: ...
    def append_add(self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Add a record.

        record_id: an i64 that no record has which is there, or which a transaction that goes on adds.
        user_type: 0 to 255.  body: so much as a file holds.
        Raises: StateError where there is such a record, or the journal is not loaded; ValueError; FullError for one
        that no file can hold, or a full disk; PoisonedError; ClosedError.
        """
        done = self._put(_ADD, record_id, user_type, body, sync)
        if done is False:
            raise StateError(_already(record_id))
        return done

    @overload
    def append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...) -> None: ...
    @overload
    def append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Later) -> Future[None]: ...
    def append_update(
        self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT
    ) -> Future[None] | None:
        """Add to a record that is there; what was there before stays with it.

        Raises: NotFoundError where there is no such record, also where only a transaction that goes on has it; and as
        `append_add`.
        """
        done = self._put(_UPDATE, record_id, user_type, body, sync)
        if done is False:
            raise NotFoundError(f"there is no record {record_id}")
        return done

    @overload
    def append_delete(self, record_id: int, *, sync: _Now = ...) -> None: ...
    @overload
    def append_delete(self, record_id: int, *, sync: _Later) -> Future[None]: ...
    def append_delete(self, record_id: int, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Delete a record that is there, with all its updates.  Raises: as `append_update`."""
        done = self._put(_DELETE, record_id, 0, b"", sync)
        if done is False:
            raise NotFoundError(f"there is no record {record_id}")
        return done

    @overload
    def try_append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...) -> bool: ...
    @overload
    def try_append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Later) -> _Tried: ...
    def try_append_add(self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT) -> _Tried | bool:
        """As `append_add`; False where there is such a record, and nothing is appended, else True or the future."""
        return _tried(self._put(_ADD, record_id, user_type, body, sync))

    @overload
    def try_append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...) -> bool: ...
    @overload
    def try_append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Later) -> _Tried: ...
    def try_append_update(
        self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT
    ) -> _Tried | bool:
        """As `append_update`; False where there is no such record, and nothing is appended, else True or the future."""
        return _tried(self._put(_UPDATE, record_id, user_type, body, sync))

    @overload
    def try_append_delete(self, record_id: int, *, sync: _Now = ...) -> bool: ...
    @overload
    def try_append_delete(self, record_id: int, *, sync: _Later) -> _Tried: ...
    def try_append_delete(self, record_id: int, *, sync: Sync = Sync.WAIT) -> _Tried | bool:
        """As `append_delete`; False where there is no such record, and nothing is appended, else True or the future."""
        return _tried(self._put(_DELETE, record_id, 0, b"", sync))

    @overload
    def append_add_tx(self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...) -> None: ...
    @overload
    def append_add_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Later
    ) -> Future[None]: ...
    def append_add_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.LATER
    ) -> Future[None] | None:
        """Add a record with a transaction, which begins with the first record that names it.

        It is there once the transaction is committed, and on the disk when that is.
        Raises: StateError where the transaction is prepared; and as `append_add`.
        """
        return self._join(_ADD_TX, tx_id, record_id, user_type, body, sync)

    @overload
    def append_update_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...
    ) -> None: ...
    @overload
    def append_update_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Later
    ) -> Future[None]: ...
    def append_update_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.LATER
    ) -> Future[None] | None:
        """Add to a record with a transaction; nobody looks whether there is one.

        Raises: as `append_add_tx`, but for which records are there.
        """
        return self._join(_UPDATE_TX, tx_id, record_id, user_type, body, sync)

    @overload
    def append_delete_tx(self, tx_id: int, record_id: int, body: bytes = ..., *, sync: _Now = ...) -> None: ...
    @overload
    def append_delete_tx(self, tx_id: int, record_id: int, body: bytes = ..., *, sync: _Later) -> Future[None]: ...
    def append_delete_tx(
        self, tx_id: int, record_id: int, body: bytes = b"", *, sync: Sync = Sync.LATER
    ) -> Future[None] | None:
        """Delete a record with a transaction; nobody looks whether there is one.

        body: told with the transaction by a load that finds it prepared.  Raises: as `append_update_tx`.
        """
        return self._join(_DELETE_TX, tx_id, record_id, 0, body, sync)

    @overload
    def prepare(self, tx_id: int, extra: bytes = ..., *, sync: _Now = ...) -> None: ...
    @overload
    def prepare(self, tx_id: int, extra: bytes = ..., *, sync: _Later) -> Future[None]: ...
    def prepare(self, tx_id: int, extra: bytes = b"", *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Have a transaction, which may have no record, wait for `commit` or `rollback`, also of the next process.

        extra: told by the next load.
        Raises: StateError where it is prepared already; FullError; PoisonedError; ClosedError.
        """
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            found = self._ledger.transactions.get(tx_id)
            if found is not None and found.prepared:
                raise StateError(f"the transaction {tx_id} is prepared")
            self._end_transaction(_PREPARE, tx_id, extra, _counts(found))
            settled = self._appender.settle(sync)
        return self._wait(settled)

    @overload
    def commit(self, tx_id: int, *, sync: _Now = ...) -> None: ...
    @overload
    def commit(self, tx_id: int, *, sync: _Later) -> Future[None]: ...
    def commit(self, tx_id: int, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Have all that a transaction did be there: all of it, or after a crash before it is durable maybe nothing.

        Raises: NotFoundError where there is no such transaction; FullError; PoisonedError; ClosedError.
        """
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            self._end_transaction(_COMMIT, tx_id, b"", _counts(self._transaction(tx_id)))
            settled = self._appender.settle(sync)
        return self._wait(settled)

    @overload
    def rollback(self, tx_id: int, *, sync: _Now = ...) -> None: ...
    @overload
    def rollback(self, tx_id: int, *, sync: _Later) -> Future[None]: ...
    def rollback(self, tx_id: int, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Have nothing that a transaction did be there.  Raises: as `commit`."""
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            self._transaction(tx_id)
            self._end_transaction(_ROLLBACK, tx_id, b"", b"")
            settled = self._appender.settle(sync)
        return self._wait(settled)

    def reclaim(self) -> int:
        """Free all files that nobody needs, which the journal does itself now and then; how many there were.

        Blocks: for a sync, and one for each file.
        Raises: FullError, AccessError where something kept it from doing so, which may pass; StateError; ClosedError;
        PoisonedError.
        """
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
        return self._keeper.reclaim()

    def compact(self) -> int:
        """Write what is alive anew, in fewer files, which the journal does itself; how many files fewer have records.

        A journal in a layout of JBoss Messaging's is never compacted, and this returns 0.
        Others append meanwhile.  Files with records of a transaction that goes on, or with damage, stay as they are.
        Blocks: until it is done.  Raises: FullError, AccessError, and nothing was done; and as `reclaim`.
        """
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
        return self._keeper.compact()

    def problems(self) -> list[Problem]:
        """What compactions found damaged since the load; such files stay as they are.

        Raises: StateError; ClosedError; PoisonedError.
        """
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            return list(self._compactor.problems)

    def why_kept(self) -> list[Kept]:
        """For each file with records but the last one, oldest first, what keeps it from being used again.

        Blocks: for as long as looking at all records takes.  Raises: StateError; ClosedError.
        """
        with self._guard, self._files_guard:
            if self._state != "loaded":
                self._refuse_state()
            return self._ledger.kept_files(self._files.data)

    def _put(
        self, kind: int, record_id: int, user_type: int, body: bytes, sync: Sync
    ) -> Future[None] | Literal[False] | None:
        """Append a record outside of transactions; False where there is one of the id and none is wanted, or not."""
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            appender = self._appender
            if (record_id in self._ledger.records) is (kind == _ADD):
                return False
            if kind == _ADD and record_id in self._ledger.adding:
                return False
            file, size = self._append(kind, 0, record_id, user_type, body, b"")
            if kind == _DELETE:
                self._ledger.delete(record_id, file)
            else:
                self._ledger.add(record_id, file, size)
                if record_id > self._id:
                    self._id = record_id
            self._guard.changing = False
            settled = appender.settle(sync)
        return None if settled is None else self._wait(settled)

    def _join(
        self, kind: int, tx_id: int, record_id: int, user_type: int, body: bytes, sync: Sync
    ) -> Future[None] | None:
        if type(sync) is not Sync:
            raise self._no_sync(sync)
        with self._guard:
            if self._state != "loaded":
                self._refuse_state()
            appender = self._appender
            found = self._ledger.transactions.get(tx_id)
            if found is not None and found.prepared:
                raise StateError(f"the transaction {tx_id} is prepared")
            if kind == _ADD_TX and (record_id in self._ledger.records or record_id in self._ledger.adding):
                raise StateError(_already(record_id))
            file, size = self._append(kind, tx_id, record_id, user_type, body, b"")
            self._ledger.join(tx_id, Operation(kind, record_id, file, size))
            self._id = max(self._id, record_id, tx_id)
            self._guard.changing = False
            settled = appender.settle(sync)
        return None if settled is None else self._wait(settled)

    def _wait(self, settled: Future[None] | tuple[int, bool] | None) -> Future[None] | None:
        """Wait if there is something to wait for; the guard is not held."""
        if isinstance(settled, tuple):
            self._appender.wait(*settled)
            return None
        return settled

    def _transaction(self, tx_id: int) -> Transaction:
        if self._state != "loaded":
            self._refuse_state()
        found = self._ledger.transactions.get(tx_id)
        if found is None:
            raise NotFoundError(f"there is no transaction {tx_id}")
        return found


def _already(record_id: int) -> str:
    return f"there is a record {record_id} already, or a transaction that goes on adds it"


def _tried(done: _Tried | None) -> _Tried | bool:
    return True if done is None else done


def _counts(transaction: Transaction | None) -> bytes:
    """How many records of a transaction each file has, as they lie in its commit."""
    if transaction is None:
        return b""
    return pack_counts((file.header.record_id, count) for file, count in transaction.counts.items())
