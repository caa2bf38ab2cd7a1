"""A transaction whose messages lie in pages, until it is committed or rolled back: see `binlog.paging.transactions`.

What is durable where a commit fails: the commit is one call of the store, behind all else.  What fails before that
call, and a call that says that it did nothing, leaves a transaction that can be rolled back.  After another failure of
the call nobody knows before the store is opened anew, so the transaction is neither.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol, Self

from binlog.errors import BinlogError, NotFoundError, PoisonedError, StateError
from binlog.format.paging.store_records import StoreRecord, pack_page_transaction
from binlog.paging.transaction_store import NOTHING_DONE, TransactionStore, give_up
from binlog.storage.undisturbed import uninterrupted

_MAY_BE_COMMITTED = "the transaction may be committed, which is known once all is opened anew"


class Outcome(enum.Enum):
    """What became of a transaction.  OPEN: nothing yet.  UNKNOWN: it was rolled back, or its process died."""

    OPEN = "open"
    COMMITTED = "committed"
    UNKNOWN = "unknown"


class Synced(Protocol):
    """What a transaction wrote to."""

    def sync(self) -> None: ...


class Registry(Protocol):
    """Who knows of all transactions."""

    @property
    def store(self) -> TransactionStore: ...
    def committed(self, transaction: PageTransaction, record_id: int) -> None: ...
    def rolled_back(self, transaction: PageTransaction) -> None: ...
    def tell(self) -> None: ...
    def fail(self, error: PoisonedError) -> None: ...


class PageTransaction:
    """A transaction, of which messages go to pages.  It is one thread's at a time.

    tx_id: what its messages have with them.  count: of its messages and acknowledgements in files.
    """

    def __init__(self, registry: Registry, tx_id: int, store_tx_id: int) -> None:
        self._registry = registry
        self.tx_id = tx_id
        self.store_tx_id = store_tx_id
        self.count = 0
        self.state = Outcome.OPEN
        self._written: dict[Synced, None] = {}
        self._ended: deque[Callable[[bool], None]] = deque()
        self._prepared = False
        self._half_done = False
        self._may_be_committed = False
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
        """Raises: StateError where it was ended, or prepared, or was interrupted; PoisonedError."""
        self._check_outcome()
        if self.state is not Outcome.OPEN or self._prepared:
            raise StateError("the transaction was ended, or prepared")
        if self._half_done:
            raise StateError("the transaction was interrupted while something of it was written: roll it back")

    def when_ended(self, tell: Callable[[bool], None]) -> None:
        """Have it be told whether it was committed, once it has ended."""
        self._ended.append(tell)
        if self.state is not Outcome.OPEN:  # it may have told the others before
            self._tell()

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

    def commit(self) -> None:
        """Have all its messages be there, durably: all of them, or after a crash before that none.

        All that it wrote is synced before the commit is recorded.  What its user has appended to the store's
        transaction `store_tx_id` is there with it, or is not.
        Blocks: for syncs.
        Raises: FullError, AccessError, and it can be tried again, or rolled back; PoisonedError where a sync failed:
        of a page, and it can be rolled back; of the store, and it may be committed, which is known once that is opened
        anew, and neither can be done; StateError; ClosedError.
        """
        uninterrupted(self._commit)

    def _commit(self) -> None:
        with self._step:
            self._check_open()
            if not self._prepared:
                self.check()
                self._record()
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
        except BaseException as error:
            self._may_be_committed = True
            failure = PoisonedError(
                f"the transaction may be committed, which is known once all is opened anew: {error}"
            )
            self._registry.fail(failure)
            raise failure from error

    def rollback(self) -> None:
        """Have none of its messages be there, nor what its user has appended to the store's transaction.

        What was written stays in the pages until they go, and is passed over.
        Raises: StateError; of one that was prepared FullError, AccessError, PoisonedError, ClosedError too, and then it
        is still that; PoisonedError of one that may be committed.
        """
        uninterrupted(self._rollback)

    def _rollback(self) -> None:
        with self._step:
            self._check_open()
            if self._prepared:
                self._roll_back_prepared()
            else:
                give_up(self._registry.store, self.store_tx_id)
            self._registry.rolled_back(self)
            self._end(Outcome.UNKNOWN)

    def _roll_back_prepared(self) -> None:
        try:
            self._registry.store.rollback(self.store_tx_id)
        except PoisonedError as error:
            self._registry.fail(error)
            raise

    def _check_open(self) -> None:
        if self.state is not Outcome.OPEN:
            raise StateError("the transaction was ended")
        self._check_outcome()

    def _check_outcome(self) -> None:
        if self._may_be_committed:
            raise PoisonedError(_MAY_BE_COMMITTED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Commit, or after an exception roll back, where neither was done; where the commit fails roll back too.

        What may be committed is not rolled back: see `commit`.
        """
        if self.state is Outcome.OPEN and not self._prepared and not self._may_be_committed:
            uninterrupted(self._commit_or_roll_back if kind is None else self._rollback)

    def _commit_or_roll_back(self) -> None:
        try:
            self._commit()
        except BaseException:
            if not self._may_be_committed:
                self._rollback()
            raise

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
        self._tell()
        self._registry.tell()

    def _tell(self) -> None:
        while self._ended:
            with suppress(IndexError):  # another thread has it
                self._ended.popleft()(self.state is Outcome.COMMITTED)
