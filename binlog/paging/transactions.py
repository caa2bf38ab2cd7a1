"""Transactions whose messages lie in pages: which were committed, and how much of each is left there.

A message has its transaction's id with it.  What says that the transaction was committed is one record of the
transactional store, with how many messages and acknowledgements are the transaction's.  As pages go, the count is
lowered, in the same transaction of the store that says that they go; with the last one the record goes.  A message
whose transaction has no record was never committed, or was rolled back.

Ids are taken at random, so that no later transaction is taken for one of which messages are left.
"""

from __future__ import annotations

import enum
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol, Self

from binlog.errors import BinlogError, ClosedError, FullError, StateError
from binlog.format.paging.store_records import StoreRecord, pack_page_transaction, parse_page_transaction
from binlog.paging.transaction_store import Stored, TransactionStore
from binlog.paging.uninterrupted import uninterrupted


class Outcome(enum.Enum):
    """What became of a transaction.  OPEN: nothing yet.  UNKNOWN: it was rolled back, or its process died."""

    OPEN = "open"
    COMMITTED = "committed"
    UNKNOWN = "unknown"


class Synced(Protocol):
    """What a transaction wrote to."""

    def sync(self) -> None: ...


class PageTransaction:
    """A transaction, of which messages go to pages.  It is one thread's at a time.

    tx_id: what its messages have with them.  count: of its messages and acknowledgements in files.
    """

    def __init__(self, registry: PageTransactions, tx_id: int, store_tx_id: int) -> None:
        self._registry = registry
        self.tx_id = tx_id
        self.store_tx_id = store_tx_id
        self.count = 0
        self.state = Outcome.OPEN
        self._written: dict[Synced, None] = {}
        self._ended: list[Callable[[bool], None]] = []
        self._prepared = False
        self._half_done = False
        self._step = threading.Lock()
        self._record_id = 0

    @contextmanager
    def writing(self, to: Synced) -> Iterator[Self]:
        """For the block something of it is written, and `done` called behind that.

        Where an exception that is none of ours comes out of it nobody knows whether it was written, and only `rollback`
        is possible then: with a commit the counts of messages would be wrong.
        Raises: StateError where it was ended, or prepared.
        """
        with self._step:
            self.check()
            self._half_done = True
            self._written[to] = None
            try:
                yield self
            except (BinlogError, ValueError, TypeError):
                self._half_done = False  # nothing was written
                raise
            self._half_done = False

    def done(self, tell: Callable[[bool], None] | None = None) -> None:
        """A message or an acknowledgement of it was written.  tell: is told whether it was committed."""
        self.count += 1
        if tell is not None:
            self._ended.append(tell)

    def check(self) -> None:
        """Raises: StateError where it was ended, or prepared, or was interrupted."""
        if self.state is not Outcome.OPEN or self._prepared:
            raise StateError("the transaction was ended, or prepared")
        if self._half_done:
            raise StateError("the transaction was interrupted while something of it was written: roll it back")

    def when_ended(self, tell: Callable[[bool], None]) -> None:
        """Have it be told whether it was committed, once it has ended."""
        self._ended.append(tell)

    def prepare(self, extra: bytes = b"") -> None:
        """Have it wait for `commit` or `rollback`, also of the next process.  extra: told by that.

        Blocks: for syncs.  Raises: StateError; FullError; PoisonedError; ClosedError.
        """
        self.check()
        uninterrupted(partial(self._prepare, extra))

    def _prepare(self, extra: bytes) -> None:
        with self._step:
            self.check()
            self._record()
            self._registry.store.prepare(self.store_tx_id, extra)
            self._prepared = True

    def commit(self, *, others: bool = False) -> None:
        """Have all its messages be there, durably: all of them, or after a crash before that none.

        All that it wrote is synced before the commit is recorded.  others: the caller has appended records of his own
        to the store's transaction `store_tx_id`, which are there with them.
        Blocks: for syncs.  Raises: StateError; FullError, and it can be tried again; PoisonedError; ClosedError.
        """
        uninterrupted(partial(self._commit, others=others))

    def _commit(self, *, others: bool) -> None:
        with self._step:
            self._check_open()
            if not self._prepared:
                self.check()
                self._record()
            if self.count or others or self._prepared:
                self._registry.store.commit(self.store_tx_id)
            self._registry.committed(self, self._record_id)
            self._end(Outcome.COMMITTED)

    def rollback(self, *, others: bool = False) -> None:
        """Have none of its messages be there.  others: as with `commit`.

        What was written stays in the pages until they go, and is passed over.  Raises: StateError; PoisonedError.
        """
        uninterrupted(partial(self._rollback, others=others))

    def _rollback(self, *, others: bool) -> None:
        with self._step:
            self._check_open()
            if self._record_id or others or self._prepared:
                self._registry.store.rollback(self.store_tx_id)
            self._registry.rolled_back(self)
            self._end(Outcome.UNKNOWN)

    def _check_open(self) -> None:
        if self.state is not Outcome.OPEN:
            raise StateError("the transaction was ended")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Commit, or after an exception roll back, where neither was done."""
        if self.state is Outcome.OPEN and not self._prepared:
            self.commit() if kind is None else self.rollback()

    def _record(self) -> None:
        """Sync, then say so in the store's transaction."""
        for each in self._written:
            each.sync()
        if self.count and not self._record_id:
            record_id = self._registry.store.new_id()
            body = pack_page_transaction(self.tx_id, self.count)
            self._registry.store.append_add_tx(self.store_tx_id, record_id, StoreRecord.PAGE_TRANSACTION, body)
            self._record_id = record_id

    def _end(self, outcome: Outcome) -> None:
        self.state = outcome
        for tell in self._ended:
            tell(outcome is Outcome.COMMITTED)
        self._registry.tell()


class _Left:
    """Of a committed transaction: its record in the store, and how much of it is left in pages."""

    __slots__ = ("count", "record_id")

    def __init__(self, record_id: int, count: int) -> None:
        self.record_id = record_id
        self.count = count


class PageTransactions:
    """All transactions whose messages lie in pages.

    store: the transactional store beside the pages.  in_doubt: those that an earlier process prepared, by the id of the
    store's transaction.
    """

    def __init__(self, store: TransactionStore | None, stored: Stored | None = None) -> None:
        """Raises: CorruptError."""
        self._store = store
        self.in_doubt: dict[int, tuple[PageTransaction, bytes]] = {}
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._lowering = threading.Lock()
        self._open: dict[int, PageTransaction] = {}
        self._left: dict[int, _Left] = {}
        self._listeners: list[Callable[[], None]] = []
        self._stopped = False
        if stored is not None:
            self._restore(stored)

    def _restore(self, stored: Stored) -> None:
        for record in stored.records:
            if record.user_type == StoreRecord.PAGE_TRANSACTION:
                tx_id, count = parse_page_transaction(record.body, record.record_id)
                self._left[tx_id] = _Left(record.record_id, count)  # an update comes behind what it updates
        for waiting in stored.prepared:
            for record in waiting.records:
                if record.user_type == StoreRecord.PAGE_TRANSACTION:
                    tx_id, count = parse_page_transaction(record.body, record.record_id)
                    if tx_id in self._left:
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
        return {tx_id: left.count for tx_id, left in dict(self._left).items()}

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
        return Outcome.COMMITTED if tx_id in self._left else Outcome.UNKNOWN

    def is_committed(self, tx_id: int) -> bool:
        """Whether it was."""
        return self.outcome(tx_id) is Outcome.COMMITTED

    def open_transaction(self, tx_id: int) -> PageTransaction | None:
        """The transaction, while it is open."""
        return self._open.get(tx_id)

    def wait(self, tx_id: int, timeout: float | None = None) -> Outcome:
        """What became of a transaction, which is waited for while it is open.

        Raises: ClosedError once `stop` was called.
        """
        with self._mutex:
            self._changed.wait_for(lambda: self._stopped or tx_id not in self._open, timeout)
            if self._stopped:
                raise ClosedError("the paging was closed, and a transaction had not ended")
            return self.outcome(tx_id)

    def when_settled(self, tell: Callable[[], None]) -> None:
        """Have it be called whenever a transaction has ended."""
        self._listeners.append(tell)

    def stop(self) -> None:
        """Let nobody wait any more."""
        with self._mutex:
            self._stopped = True
            self._changed.notify_all()

    @contextmanager
    def lowered(self, counts: Mapping[int, int]) -> Iterator[int]:
        """A transaction of the store, for the block, that is committed behind it: so many less of each are in pages.

        It gives the id of the store's transaction.  Those that were not committed have nothing to lower.
        Blocks: for a sync, and while another thread is here.
        Raises: StateError where less is left than is taken away; FullError; PoisonedError; ClosedError.
        """
        store = self.store
        with self._lowering:
            store_tx_id = store.new_id()
            is_ending = False
            try:
                left = self._lower(store_tx_id, counts)
                yield store_tx_id
                is_ending = True
                store.commit(store_tx_id)
            except BaseException as error:
                if not is_ending or isinstance(error, FullError):
                    _give_up(store, store_tx_id)  # else nobody knows whether it was committed
                raise
            with self._mutex:
                for tx_id, count in left:
                    if count:
                        self._left[tx_id].count = count
                    else:
                        del self._left[tx_id]

    def _lower(self, store_tx_id: int, counts: Mapping[int, int]) -> list[tuple[int, int]]:
        result = []
        for tx_id, count in counts.items():
            found = self._left.get(tx_id)
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

    def purge(self, there: Iterable[int]) -> None:
        """Remove the records of transactions of which nothing is in any page."""
        known = set(there)
        gone = {tx_id: left.count for tx_id, left in self._left.items() if tx_id not in known}
        if gone:
            with self.lowered(gone):
                pass

    def committed(self, transaction: PageTransaction, record_id: int) -> None:
        """A transaction's record is durable."""
        with self._mutex:
            if transaction.count:
                # Before it is open no more: `outcome` takes no lock, and must not find it nowhere.
                self._left[transaction.tx_id] = _Left(record_id, transaction.count)
            self._open.pop(transaction.tx_id, None)
            self.in_doubt.pop(transaction.store_tx_id, None)

    def rolled_back(self, transaction: PageTransaction) -> None:
        """A transaction will have no record."""
        with self._mutex:
            self._open.pop(transaction.tx_id, None)
            self.in_doubt.pop(transaction.store_tx_id, None)

    def tell(self) -> None:
        """A transaction has ended."""
        with self._mutex:
            self._changed.notify_all()
        for listener in self._listeners:
            listener()


def _give_up(store: TransactionStore, store_tx_id: int) -> None:
    # There is none where nothing was appended to it; and what cannot be rolled back the next load rolls back.
    with suppress(BinlogError):
        store.rollback(store_tx_id)
