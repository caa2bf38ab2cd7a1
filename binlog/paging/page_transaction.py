"""A page transaction: messages and acknowledgements that are committed or rolled back together.

The commit is one call of the transactional store, after everything else.  If that call reports that it did nothing, the
transaction can be rolled back.  Any other failure poisons the paging, and so does an exception that breaks off a
change: then the transaction is neither committed nor rolled back until the paging is opened again.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, Self

from binlog.errors import NotFoundError, PoisonedError, StateError
from binlog.format.paging.store_records import StoreRecord, pack_page_transaction
from binlog.paging.transaction_store import NOTHING_DONE, TransactionStore, roll_back_if_possible
from binlog.storage.native import Guard, Monitor


class Outcome(enum.Enum):
    """The outcome of a transaction.

    OPEN: not decided yet.  UNKNOWN: it was rolled back, or its process died.
    """

    OPEN = "open"
    COMMITTED = "committed"
    UNKNOWN = "unknown"


class Syncable(Protocol):
    """A file or store that a transaction wrote to."""

    def sync(self) -> None: ...


class TransactionRegistry(Protocol):
    """The registry of all transactions."""

    guard: Guard

    @property
    def store(self) -> TransactionStore: ...
    def committed(self, transaction: PageTransaction, record_id: int) -> None: ...
    def rolled_back(self, transaction: PageTransaction) -> None: ...
    def notify_ended(self) -> None: ...


class PageTransaction:
    """A transaction whose messages go to pages.  It belongs to one thread at a time.

    tx_id: stored with each message.  count: its messages and acknowledgements in files.  mutex: held during its writes
    and while it ends.
    """

    def __init__(self, registry: TransactionRegistry, tx_id: int, store_tx_id: int) -> None:
        self._registry = registry
        self._guard = registry.guard
        self.tx_id = tx_id
        self.store_tx_id = store_tx_id
        self.count = 0
        self.state = Outcome.OPEN
        self._enlisted: dict[Syncable, None] = {}
        self._callbacks: deque[Callable[[bool], None]] = deque()
        self._prepared = False
        self.mutex = Monitor()
        self._record_id = 0

    def enlist(self, target: Syncable) -> None:
        """Note that the transaction is about to write to `target`; the caller is in a change and holds `mutex`.

        Raises: StateError if the transaction has ended or is prepared.
        """
        self._check()
        self._enlisted[target] = None

    def _check(self) -> None:
        if self.state is not Outcome.OPEN or self._prepared:
            raise StateError("the transaction has ended or is prepared")

    def on_end(self, callback: Callable[[bool], None]) -> None:
        """Call `callback` when the transaction has ended, with whether it was committed."""
        self._callbacks.append(callback)
        if self.state is not Outcome.OPEN:  # the other callbacks may have run already
            self._run_callbacks()

    def prepare(self, extra: bytes = b"") -> None:
        """Prepare the transaction: it waits for `commit` or `rollback`, also in the next process.

        extra: bytes that the next process gets with it.
        Blocks: for syncs.  Raises: StateError; FullError; PoisonedError; ClosedError.
        """
        with self.mutex, self._guard.change():
            self._check()
            self._record_commit()
            self._registry.store.prepare(self.store_tx_id, extra)
            self._prepared = True

    def commit(self) -> None:
        """Commit durably: after a crash either all of its messages are readable, or none.

        Everything that it wrote is synced before the commit is recorded.  Records that its user appended to the store's
        transaction `store_tx_id` are committed with it.
        Blocks: for syncs.
        Raises: FullError, AccessError, after which it can be retried or rolled back; PoisonedError if a sync failed,
        after which neither is possible.  If that was a sync of the store, the transaction may be committed; open the
        paging again to find out.  StateError; ClosedError.
        """
        with self.mutex, self._guard.change():
            self._check_open()
            if not self._prepared:
                self._record_commit()
            self._commit_stored()
            self._registry.committed(self, self._record_id)
            self._end(Outcome.COMMITTED)

    def _commit_stored(self) -> None:
        try:
            self._registry.store.commit(self.store_tx_id)
        except NotFoundError:
            if self._record_id:
                raise
            # Neither this transaction nor its user has appended anything.
        except NOTHING_DONE:
            raise
        except Exception as error:
            raise PoisonedError(
                f"the transaction may be committed; open the paging again to find out: {error}"
            ) from error

    def rollback(self) -> None:
        """Roll back: discard its messages, and the records that its user appended to the store's transaction.

        Its messages stay in their pages until these are removed; readers skip them.
        Raises: StateError; PoisonedError.  If it was prepared also FullError, AccessError, ClosedError, and then it
        still is.
        """
        with self.mutex, self._guard.change():
            self._check_open()
            if self._prepared:
                self._registry.store.rollback(self.store_tx_id)
            else:
                roll_back_if_possible(self._registry.store, self.store_tx_id)
            self._registry.rolled_back(self)
            self._end(Outcome.UNKNOWN)

    def _check_open(self) -> None:
        if self.state is not Outcome.OPEN:
            raise StateError("the transaction has ended")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Commit, or roll back after an exception or a failed commit, unless it has ended already.

        Once the paging is poisoned, do neither.
        """
        if kind is not None:
            self._roll_back_if_possible()
        elif self.state is Outcome.OPEN and not self._prepared:
            try:
                self.commit()
            except BaseException:
                self._roll_back_if_possible()
                raise

    def _roll_back_if_possible(self) -> None:
        if self.state is Outcome.OPEN and not self._prepared and self._guard.failure is None:
            self.rollback()

    def _record_commit(self) -> None:
        """Sync, and then append the commit record to the store's transaction."""
        for each in self._enlisted:
            each.sync()
        if self.count and not self._record_id:
            record_id = self._registry.store.new_id()
            body = pack_page_transaction(self.tx_id, self.count)
            self._registry.store.append_add_tx(self.store_tx_id, record_id, StoreRecord.PAGE_TRANSACTION, body)
            self._record_id = record_id

    def _end(self, outcome: Outcome) -> None:
        self.state = outcome
        self._run_callbacks()
        self._registry.notify_ended()

    def _run_callbacks(self) -> None:
        while self._callbacks:
            with suppress(IndexError):  # another thread has taken it
                self._callbacks.popleft()(self.state is Outcome.COMMITTED)
