"""A transaction whose messages lie in pages, until it is committed or rolled back: see `binlog.paging.transactions`.

What is durable where a commit fails: the commit is one call of the store, behind all else.  A call that says that it
did nothing leaves a transaction that can be rolled back.  Any other failure poisons the paging, and so does an
exception in the middle of a step: then it is neither committed nor rolled back before all is opened anew.
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
    """What became of a transaction.  OPEN: nothing yet.  UNKNOWN: it was rolled back, or its process died."""

    OPEN = "open"
    COMMITTED = "committed"
    UNKNOWN = "unknown"


class Syncable(Protocol):
    """What a transaction wrote to."""

    def sync(self) -> None: ...


class TransactionRegistry(Protocol):
    """Who knows of all transactions."""

    guard: Guard

    @property
    def store(self) -> TransactionStore: ...
    def committed(self, transaction: PageTransaction, record_id: int) -> None: ...
    def rolled_back(self, transaction: PageTransaction) -> None: ...
    def notify_ended(self) -> None: ...


class PageTransaction:
    """A transaction, of which messages go to pages.  It is one thread's at a time.

    tx_id: what its messages have with them.  count: of its messages and acknowledgements in files.  step: held while
    something of it is written, or it ends.
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
        """Something of it is about to be written there, in a change, with `step` held.

        Raises: StateError where it was ended, or prepared.
        """
        self._check()
        self._enlisted[target] = None

    def _check(self) -> None:
        if self.state is not Outcome.OPEN or self._prepared:
            raise StateError("the transaction was ended, or prepared")

    def on_end(self, callback: Callable[[bool], None]) -> None:
        """Have it be told whether it was committed, once it has ended."""
        self._callbacks.append(callback)
        if self.state is not Outcome.OPEN:  # it may have told the others before
            self._run_callbacks()

    def prepare(self, extra: bytes = b"") -> None:
        """Have it wait for `commit` or `rollback`, also of the next process.  extra: told by that.

        Blocks: for syncs.  Raises: StateError; FullError; PoisonedError; ClosedError.
        """
        with self.mutex, self._guard.change():
            self._check()
            self._record_commit()
            self._registry.store.prepare(self.store_tx_id, extra)
            self._prepared = True

    def commit(self) -> None:
        """Have all its messages be there, durably: all of them, or after a crash before that none.

        All that it wrote is synced before the commit is recorded.  What its user has appended to the store's
        transaction `store_tx_id` is there with it, or is not.
        Blocks: for syncs.
        Raises: FullError, AccessError, and it can be tried again, or rolled back; PoisonedError where a sync failed,
        and neither can be done: where it was a sync of the store it may be committed, which is known once that is
        opened anew; StateError; ClosedError.
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
            # Nothing was appended to it, neither by this nor by its user.
        except NOTHING_DONE:
            raise
        except Exception as error:
            raise PoisonedError(
                f"the transaction may be committed, which is known once all is opened anew: {error}"
            ) from error

    def rollback(self) -> None:
        """Have none of its messages be there, nor what its user has appended to the store's transaction.

        What was written stays in the pages until they go, and is passed over.
        Raises: StateError; PoisonedError; of one that was prepared FullError, AccessError, ClosedError too, and then it
        is still that.
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
            raise StateError("the transaction was ended")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Commit, or after an exception roll back, where neither was done; where the commit fails roll back too.

        Once the paging is poisoned neither is done.
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
        """Sync, then say so in the store's transaction."""
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
            with suppress(IndexError):  # another thread has it
                self._callbacks.popleft()(self.state is Outcome.COMMITTED)
