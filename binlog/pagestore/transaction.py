"""A transaction over the queues of a page store."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from binlog.errors import BinlogError, StateError
from binlog.format.pagestore.index import QueueEntry
from binlog.format.pagestore.prepared import Xid
from binlog.format.values import plain_bytes
from binlog.pagestore.queue import Queue
from binlog.storage.group_commit import Mode
from binlog.storage.redelivery import check_delay

Taken = tuple[Queue, QueueEntry]
"""A message that a transaction has."""

PRIORITY_MAX = 9
PRIORITY = 4
_EXPIRATION_MAX = (1 << 63) - 1


class Message(NamedTuple):
    """A message of a queue.

    key: of the messages of the queue, each has a larger one than those that were put before.
    delivery_count: so often it was got before, also by processes that died.
    expiration: what who put it said of it, 0 for nothing.
    """

    queue: str
    key: int
    body: bytes
    priority: int
    delivery_count: int
    expiration: int


def check_message(priority: int, expiration: int) -> None:
    """Raises: ValueError where no message has these."""
    if not 0 <= priority <= PRIORITY_MAX or not 0 <= expiration <= _EXPIRATION_MAX:
        raise ValueError(f"no message has the priority {priority} and the expiration {expiration}")


class State(enum.Enum):
    """How far a transaction is."""

    OPEN = "open"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


# Asking the enumeration each time takes longer.
_OPEN = State.OPEN


class Put(NamedTuple):
    """A message that is to be put, into one queue or several."""

    queues: tuple[str, ...]
    body: bytes
    priority: int
    expiration: int


class TransactionStore(Protocol):
    """What a transaction asks of its store, `binlog.pagestore.PageStore`."""

    def commit_prepared(self, xid: Xid) -> None: ...
    def rollback_prepared(self, xid: Xid) -> None: ...
    def _find(self, names: tuple[str, ...]) -> None: ...
    def _get(self, transaction: Transaction, name: str) -> Message | None: ...
    def _remove(self, transaction: Transaction, name: str, key: int) -> None: ...
    def _prepare(self, transaction: Transaction, xid: Xid) -> None: ...
    def _commit(self, transaction: Transaction, mode: Mode | str | None) -> None: ...
    def _roll_back(self, transaction: Transaction, delay: float = 0.0) -> None: ...
    def _abandon(self, transaction: Transaction) -> None: ...


class Transaction:
    """What is done with it is done when it is committed, all of it, or after a crash before that nothing.

    For one thread at a time.  It is kept in memory until it is committed; what it got nobody else gets meanwhile.
    """

    def __init__(self, store: TransactionStore, tx_id: int) -> None:
        self._store = store
        self.tx_id = tx_id
        self.state = _OPEN
        self.xid: Xid | None = None
        self.puts: list[Put] = []
        self.taken: list[Taken] = []

    def put(self, queue: str, body: bytes, *, priority: int = PRIORITY, expiration: int = 0) -> None:
        """Put a message into a queue; nobody gets it before the commit.

        priority: 0 to 9, those of the highest are got first.  expiration: 0 to 2**63 - 1, which `get` tells.
        Raises: NotFoundError; ValueError; StateError; ClosedError; PoisonedError.
        """
        self._put((queue,), body, priority, expiration)

    def put_shared(self, queues: Iterable[str], body: bytes, *, priority: int = PRIORITY, expiration: int = 0) -> None:
        """Put a message into several queues, as for all durable subscribers of a topic; it is stored once.

        It stays until it was removed from all of them.
        Raises: as `put`; ValueError where there is no queue, or one twice.
        """
        names = tuple(queues)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"no message is put into the queues {names}")
        self._put(names, body, priority, expiration)

    def _put(self, queues: tuple[str, ...], body: bytes, priority: int, expiration: int) -> None:
        self.check()
        check_message(priority, expiration)
        self._store._find(queues)
        self.puts.append(Put(queues, body if type(body) is bytes else plain_bytes(body), priority, expiration))

    def get(self, queue: str) -> Message | None:
        """The next message of a queue, which the commit removes; None where nobody else left one.

        It is that of the highest priority, and of these that with the lowest key.  That it is given is written first,
        so its `delivery_count` survives the process; nothing is synced.  One that was given `deliveries_max` times
        before is put into the dead letters instead.
        Raises: CorruptError or AccessError where that cannot be read: it stays, nobody has it, and the next call goes
        on behind it, until the store is opened anew (see `PageStore.unreadable`).  NotFoundError; StateError;
        ClosedError; PoisonedError.
        """
        self.check()
        return self._store._get(self, queue)

    def remove(self, queue: str, key: int) -> None:
        """Have the commit remove a message, by its key.

        Raises: NotFoundError where there is none with it, or a transaction has it; and as `get`.
        """
        self.check()
        self._store._remove(self, queue, key)

    def prepare(self, xid: Xid) -> None:
        """Have it wait for `commit` or `rollback`, also of the next process; durably.

        What it got stays its own, and what it put nobody gets.  xid: its name, which no other that is prepared has.
        Raises: ValueError; StateError where there is one already; and as `commit`.
        """
        self.check()
        self._store._prepare(self, xid)

    def commit(self, *, mode: Mode | str | None = None) -> None:
        """Have all that was done with it be there; of one that is prepared always durably.

        mode: Mode.SYNC, and it is on the disk when this returns; or Mode.FLUSH, and it is in the file, and survives the
        process; None for the store's.
        Raises: NotFoundError where a queue is gone; FullError; CorruptError; AccessError; then it is open still, and
        nothing of it is there.  StateError; ClosedError; PoisonedError, and then it may be there after
        the next opening.
        """
        if self.state is State.PREPARED and self.xid is not None:
            self._store.commit_prepared(self.xid)
            self.state = State.COMMITTED
            return
        self.check()
        self._store._commit(self, mode)

    def rollback(self, *, delay: float = 0.0) -> None:
        """Have nothing of it be there; what it got can be got again, and tells that it was given once more.

        delay: it can be got after so many seconds, and at once after the next opening.
        One that was given `deliveries_max` times is a dead letter then.
        Raises: ValueError; StateError; ClosedError; PoisonedError.
        """
        check_delay(delay)
        if self.state is State.PREPARED and self.xid is not None:
            self._store.rollback_prepared(self.xid)
            self.state = State.ROLLED_BACK
            return
        self.check()
        self._store._roll_back(self, delay)

    def check(self) -> None:
        """Raises: StateError where it has ended."""
        if self.state is not _OPEN:
            raise StateError(f"the transaction {self.tx_id} is {self.state.value}")

    def end(self, state: State) -> None:
        """It has ended so."""
        self.state = state
        self.puts.clear()
        self.taken.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit it; where the block raised, or that cannot be, roll it back."""
        if error is not None:
            self._store._abandon(self)
        elif self.state is _OPEN:
            try:
                self.commit()
            except BinlogError:
                self._store._abandon(self)
                raise
