"""The registry of page transactions: which ones are open or committed, and what is left of them in pages.

Each message in a page has the id of its transaction.  A transaction is committed by one record in the transactional
store, which has the number of its messages and acknowledgements.  When a page is removed, the same store transaction
that records the removal decrements that number; at zero the record is deleted.  If a transaction has no record, it was
never committed, or it was rolled back.

Ids are random, so that a new transaction is never taken for an old one that still has messages in pages.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from binlog.errors import ClosedError, StateError
from binlog.format.paging.store_records import StoreRecord, pack_page_transaction, parse_page_transaction
from binlog.paging.memory import wait_until
from binlog.paging.page_transaction import Outcome, PageTransaction
from binlog.paging.transaction_store import NOTHING_DONE, StoreContents, TransactionStore, roll_back_if_possible
from binlog.storage.native import Guard, Monitor


class _Remaining:
    """A committed transaction: its record in the store, and its remaining count."""

    __slots__ = ("count", "record_id")

    def __init__(self, record_id: int, count: int) -> None:
        self.record_id = record_id
        self.count = count


class PageTransactions:
    """All transactions that have messages in pages.

    store: the transactional store.  in_doubt: the transactions that an earlier process prepared, by the id of the
    store's transaction.  guard: the guard of the whole paging.
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
        self._stopped = False
        if stored is not None:
            self._restore(stored)

    def _restore(self, stored: StoreContents) -> None:
        for record in stored.records:
            if record.user_type == StoreRecord.PAGE_TRANSACTION:
                tx_id, count = parse_page_transaction(record.body, record.record_id)
                self._remaining[tx_id] = _Remaining(
                    record.record_id, count
                )  # updates follow the record that they change
        for waiting in stored.prepared:
            for record in waiting.records:
                if record.user_type == StoreRecord.PAGE_TRANSACTION:
                    tx_id, count = parse_page_transaction(record.body, record.record_id)
                    if tx_id in self._remaining:
                        continue  # the store transaction is of a depage
                    transaction = PageTransaction(self, tx_id, waiting.tx_id)
                    transaction.count, transaction._record_id = count, record.record_id
                    transaction._prepared = True
                    self._open[tx_id] = transaction
                    self.in_doubt[waiting.tx_id] = (transaction, waiting.extra)

    @property
    def store(self) -> TransactionStore:
        """The transactional store.  Raises: StateError if there is none."""
        if self._store is None:
            raise StateError("transactions need a transactional store; pass one as store=")
        return self._store

    @property
    def counts(self) -> Mapping[int, int]:
        """The remaining count of each committed transaction."""
        return {tx_id: left.count for tx_id, left in dict(self._remaining).items()}

    @property
    def committed_count(self) -> int:
        """The number of committed transactions that have something left in pages."""
        return len(self._remaining)

    @property
    def open_ids(self) -> frozenset[int]:
        """The open transactions of this process."""
        waiting = {transaction.tx_id for transaction, _ in tuple(self.in_doubt.values())}
        return frozenset(tuple(self._open)) - waiting

    def begin(self) -> PageTransaction:
        """Begin a transaction.  Raises: StateError; ClosedError; PoisonedError."""
        transaction = PageTransaction(self, secrets.randbits(62) + 1, self.store.new_id())
        with self._mutex:
            self._open[transaction.tx_id] = transaction
        return transaction

    def outcome(self, tx_id: int) -> Outcome:
        """Return the outcome of a transaction."""
        if tx_id in self._open:
            return Outcome.OPEN
        return Outcome.COMMITTED if tx_id in self._remaining else Outcome.UNKNOWN

    def is_committed(self, tx_id: int) -> bool:
        """Return whether a transaction was committed."""
        return self.outcome(tx_id) is Outcome.COMMITTED

    def open_transaction(self, tx_id: int) -> PageTransaction | None:
        """Return a transaction if it is open."""
        return self._open.get(tx_id)

    def wait(self, tx_id: int, timeout: float | None = None) -> Outcome:
        """Wait until a transaction has ended, and return its outcome.

        Raises: ClosedError after `stop`; PoisonedError if the transaction cannot end any more.
        """
        with self._mutex:
            wait_until(self._mutex, lambda: self._stopped or self.guard.failure or tx_id not in self._open, timeout)
            if self._stopped:
                raise ClosedError("the paging was closed before the transaction ended")
            self.guard.check()
        return self.outcome(tx_id)

    def stop(self) -> None:
        """Wake all waiting threads."""
        with self._mutex:
            self._stopped = True
            self._mutex.notify()

    def decrement(self, store_tx_id: int, counts: Mapping[int, int]) -> None:
        """Commit a store transaction that decrements the remaining counts.

        Transactions that were not committed have no count.
        Blocks: for a sync, and while another thread does the same.
        Raises: StateError if a count would become negative, FullError, AccessError, ClosedError, after which the store
        transaction is rolled back; PoisonedError.
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
        """Decrement as `decrement` does, add a record in the same store transaction, and return its id."""
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
                raise StateError(
                    f"transaction {tx_id} has {found.count} messages left in pages, but {count} were found"
                )
            rest = found.count - count
            if rest:
                body = pack_page_transaction(tx_id, rest)
                self.store.append_update_tx(store_tx_id, found.record_id, StoreRecord.PAGE_TRANSACTION, body)
            else:
                self.store.append_delete_tx(store_tx_id, found.record_id)
            result.append((tx_id, rest))
        return result

    def purge(self, present: Iterable[int]) -> None:
        """Delete the records of all transactions that have nothing in any page."""
        known = set(present)
        gone = {tx_id: left.count for tx_id, left in self._remaining.items() if tx_id not in known}
        if gone:
            self.decrement(self.store.new_id(), gone)

    def committed(self, transaction: PageTransaction, record_id: int) -> None:
        """Register a transaction whose commit record is durable."""
        with self._mutex:
            if transaction.count:
                # Before it is removed from `_open`: `outcome` takes no lock, and must find it in one of the two.
                self._remaining[transaction.tx_id] = _Remaining(record_id, transaction.count)
            self._open.pop(transaction.tx_id, None)
            self.in_doubt.pop(transaction.store_tx_id, None)

    def rolled_back(self, transaction: PageTransaction) -> None:
        """Remove a transaction that was rolled back."""
        with self._mutex:
            self._open.pop(transaction.tx_id, None)
            self.in_doubt.pop(transaction.store_tx_id, None)

    def notify_ended(self) -> None:
        """Wake the threads that wait for a transaction."""
        with self._mutex:
            self._mutex.notify()
