"""Transactions whose messages lie in pages: which were committed, and how much of each is left there.

A message has its transaction's id with it.  What says that the transaction was committed is one record of the
transactional store, with how many messages and acknowledgements are the transaction's.  As pages go, the count is
lowered, in the same transaction of the store that says that they go; with the last one the record goes.  A message
whose transaction has no record was never committed, or was rolled back.

Ids are taken at random, so that no later transaction is taken for one of which messages are left.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping

from binlog.errors import ClosedError, StateError
from binlog.format.paging.store_records import StoreRecord, pack_page_transaction, parse_page_transaction
from binlog.paging.memory import wait_until
from binlog.paging.page_transaction import Outcome, PageTransaction
from binlog.paging.transaction_store import NOTHING_DONE, StoreContents, TransactionStore, roll_back_if_possible
from binlog.storage.native import Guard, Monitor


class _Remaining:
    """Of a committed transaction: its record in the store, and how much of it is left in pages."""

    __slots__ = ("count", "record_id")

    def __init__(self, record_id: int, count: int) -> None:
        self.record_id = record_id
        self.count = count


class PageTransactions:
    """All transactions whose messages lie in pages.

    store: the transactional store beside the pages.  in_doubt: those that an earlier process prepared, by the id of the
    store's transaction.  guard: of all that the paging changes.
    """

    def __init__(self, guard: Guard, store: TransactionStore | None, stored: StoreContents | None = None) -> None:
        """Raises: CorruptError."""
        self.guard = guard
        self._store = store
        self.in_doubt: dict[int, tuple[PageTransaction, bytes]] = {}
        self._mutex = Monitor()
        self._decrementing = Monitor()
        self._open: dict[int, PageTransaction] = {}
        self._remaining: dict[int, _Remaining] = {}
        self._listeners: list[Callable[[], None]] = []
        self._stopped = False
        if stored is not None:
            self._restore(stored)

    def _restore(self, stored: StoreContents) -> None:
        for record in stored.records:
            if record.user_type == StoreRecord.PAGE_TRANSACTION:
                tx_id, count = parse_page_transaction(record.body, record.record_id)
                self._remaining[tx_id] = _Remaining(record.record_id, count)  # an update comes behind what it updates
        for waiting in stored.prepared:
            for record in waiting.records:
                if record.user_type == StoreRecord.PAGE_TRANSACTION:
                    tx_id, count = parse_page_transaction(record.body, record.record_id)
                    if tx_id in self._remaining:
                        continue  # of a depage
                    transaction = PageTransaction(self, tx_id, waiting.tx_id)
                    transaction.count, transaction._record_id = count, record.record_id
                    transaction._prepared = True
                    self._open[tx_id] = transaction
                    self.in_doubt[waiting.tx_id] = (transaction, waiting.extra)

    @property
    def store(self) -> TransactionStore:
        """Raises: StateError where there is none."""
        if self._store is None:
            raise StateError("transactions need a transactional store, and none was given")
        return self._store

    @property
    def counts(self) -> Mapping[int, int]:
        """For each committed transaction, how much of it is left in pages."""
        return {tx_id: left.count for tx_id, left in dict(self._remaining).items()}

    @property
    def committed_count(self) -> int:
        """How many committed transactions have something left in pages."""
        return len(self._remaining)

    @property
    def open_ids(self) -> frozenset[int]:
        """Those that are open and this process's."""
        waiting = {transaction.tx_id for transaction, _ in tuple(self.in_doubt.values())}
        return frozenset(tuple(self._open)) - waiting

    def begin(self) -> PageTransaction:
        """A new transaction.  Raises: StateError; ClosedError; PoisonedError."""
        transaction = PageTransaction(self, secrets.randbits(62) + 1, self.store.new_id())
        with self._mutex:
            self._open[transaction.tx_id] = transaction
        return transaction

    def outcome(self, tx_id: int) -> Outcome:
        """What became of a transaction."""
        if tx_id in self._open:
            return Outcome.OPEN
        return Outcome.COMMITTED if tx_id in self._remaining else Outcome.UNKNOWN

    def is_committed(self, tx_id: int) -> bool:
        """Whether it was."""
        return self.outcome(tx_id) is Outcome.COMMITTED

    def open_transaction(self, tx_id: int) -> PageTransaction | None:
        """The transaction, while it is open."""
        return self._open.get(tx_id)

    def wait(self, tx_id: int, timeout: float | None = None) -> Outcome:
        """What became of a transaction, which is waited for while it is open.

        Raises: ClosedError once `stop` was called; PoisonedError where it cannot end any more.
        """
        with self._mutex:
            wait_until(self._mutex, lambda: self._stopped or self.guard.failure or tx_id not in self._open, timeout)
            if self._stopped:
                raise ClosedError("the paging was closed, and a transaction had not ended")
            self.guard.check()
        return self.outcome(tx_id)

    def when_settled(self, notify_ended: Callable[[], None]) -> None:
        """Have it be called whenever a transaction has ended."""
        self._listeners.append(notify_ended)

    def stop(self) -> None:
        """Let nobody wait any more."""
        with self._mutex:
            self._stopped = True
            self._mutex.notify()

    def decrement(self, store_tx_id: int, counts: Mapping[int, int]) -> None:
        """Commit a transaction of the store, and with it that so many less of each are in pages.

        Those that were not committed have nothing to lower.
        Blocks: for a sync, and while another thread is there.
        Raises: StateError where less is left than is taken away, FullError, AccessError, ClosedError, and then it is
        rolled back; PoisonedError.
        """
        try:
            with self.guard.change(), self._decrementing:
                left = self._append_decrements(store_tx_id, counts)
                self.store.commit(store_tx_id)
                self._apply(left)
        except NOTHING_DONE:
            roll_back_if_possible(self.store, store_tx_id)
            raise

    def decrement_with_record(self, counts: Mapping[int, int], user_type: StoreRecord, body: bytes) -> int:
        """Likewise, and add a record in the same transaction of the store; its id.  Raises: as `lower`."""
        store_tx_id, record_id = self.store.new_id(), self.store.new_id()
        try:
            self.store.append_add_tx(store_tx_id, record_id, user_type, body)
        except NOTHING_DONE:
            roll_back_if_possible(self.store, store_tx_id)
            raise
        self.decrement(store_tx_id, counts)
        return record_id

    def _apply(self, left: list[tuple[int, int]]) -> None:
        with self._mutex:
            for tx_id, count in left:
                if count:
                    self._remaining[tx_id].count = count
                else:
                    del self._remaining[tx_id]

    def _append_decrements(self, store_tx_id: int, counts: Mapping[int, int]) -> list[tuple[int, int]]:
        result = []
        for tx_id, count in counts.items():
            found = self._remaining.get(tx_id)
            if found is None or count == 0:
                continue
            if count > found.count:
                raise StateError(f"of the transaction {tx_id} {found.count} are left, and {count} were found")
            rest = found.count - count
            if rest:
                body = pack_page_transaction(tx_id, rest)
                self.store.append_update_tx(store_tx_id, found.record_id, StoreRecord.PAGE_TRANSACTION, body)
            else:
                self.store.append_delete_tx(store_tx_id, found.record_id)
            result.append((tx_id, rest))
        return result

    def purge(self, present: Iterable[int]) -> None:
        """Remove the records of transactions of which nothing is in any page."""
        known = set(present)
        gone = {tx_id: left.count for tx_id, left in self._remaining.items() if tx_id not in known}
        if gone:
            self.decrement(self.store.new_id(), gone)

    def committed(self, transaction: PageTransaction, record_id: int) -> None:
        """A transaction's record is durable."""
        with self._mutex:
            if transaction.count:
                # Before it is open no more: `outcome` takes no lock, and must not find it nowhere.
                self._remaining[transaction.tx_id] = _Remaining(record_id, transaction.count)
            self._open.pop(transaction.tx_id, None)
            self.in_doubt.pop(transaction.store_tx_id, None)

    def rolled_back(self, transaction: PageTransaction) -> None:
        """A transaction will have no record."""
        with self._mutex:
            self._open.pop(transaction.tx_id, None)
            self.in_doubt.pop(transaction.store_tx_id, None)

    def notify_ended(self) -> None:
        """A transaction has ended."""
        with self._mutex:
            self._mutex.notify()
        for listener in self._listeners:
            listener()
