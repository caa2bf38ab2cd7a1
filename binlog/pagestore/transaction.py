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
from binlog.storage.mode import Mode
from binlog.storage.redelivery import check_delay

Taken = tuple[Queue, QueueEntry]
"""A message that a transaction has taken."""

PRIORITY_MAX = 9
PRIORITY = 4
_EXPIRATION_MAX = (1 << 63) - 1


class Message(NamedTuple):
    """A message of a queue.

    key: larger than the keys of all messages that were put into the queue before.
    delivery_count: how often it was delivered before, also by processes that died.
    expiration: as its producer set it, 0 for none.
    """

    queue: str
    key: int
    body: bytes
    priority: int
    delivery_count: int
    expiration: int


def check_message(priority: int, expiration: int) -> None:
    """Raise ValueError if the priority or the expiration is out of range."""
    if not 0 <= priority <= PRIORITY_MAX or not 0 <= expiration <= _EXPIRATION_MAX:
        raise ValueError(f"priority={priority!r}, expiration={expiration!r}: out of range")


class State(enum.Enum):
    """The state of a transaction."""

    OPEN = "open"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


# Reading the enumeration each time takes longer.
_OPEN = State.OPEN


class Put(NamedTuple):
    """A message to put into one or more queues."""

    queues: tuple[str, ...]
    body: bytes
    priority: int
    expiration: int


class TransactionStore(Protocol):
    """The interface of `binlog.pagestore.PageStore` that a transaction needs."""

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
    """A transaction: after its commit, or a crash, all of its changes are in the store, or none.

    It belongs to one thread at a time.  It is kept in memory until its commit.  Meanwhile no other transaction gets its
    messages.
    """

    def __init__(self, store: TransactionStore, tx_id: int) -> None:
        self._store = store
        self.tx_id = tx_id
        self.state = _OPEN
        self.xid: Xid | None = None
        self.puts: list[Put] = []
        self.taken: list[Taken] = []

    def put(self, queue: str, body: bytes, *, priority: int = PRIORITY, expiration: int = 0) -> None:
        """Put a message into a queue; other transactions can get it after the commit.

        priority: 0 to 9; the highest is delivered first.  expiration: 0 to 2**63 - 1, returned by `get`.
        Raises: NotFoundError; ValueError; StateError; ClosedError; PoisonedError.
        """
        self._put((queue,), body, priority, expiration)

    def put_shared(self, queues: Iterable[str], body: bytes, *, priority: int = PRIORITY, expiration: int = 0) -> None:
        """Put one message into several queues, such as those of all durable subscribers of a topic.  It is stored once.

        It stays until it was removed from all of them.
        Raises: as `put`; ValueError if there is no queue, or the same one twice.
        """
        names = tuple(queues)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"queues={names!r}: name at least one queue, and each only once")
        self._put(names, body, priority, expiration)

    def _put(self, queues: tuple[str, ...], body: bytes, priority: int, expiration: int) -> None:
        self.check()
        check_message(priority, expiration)
        self._store._find(queues)
        self.puts.append(Put(queues, body if type(body) is bytes else plain_bytes(body), priority, expiration))

    def get(self, queue: str) -> Message | None:
        """Return the next message of a queue, which the commit removes; None if no message is available.

        That is the one with the highest priority, and of these the one with the lowest key.  The delivery is written
        first, without a sync, so that `delivery_count` survives the process.  A message that was delivered
        `deliveries_max` times before goes to the dead letters instead.
        Raises: CorruptError or AccessError if it cannot be read; it stays in the queue, and later calls skip it until
        the store is opened again (see `PageStore.unreadable`).  NotFoundError; StateError; ClosedError; PoisonedError.
        """
        self.check()
        return self._store._get(self, queue)

    def remove(self, queue: str, key: int) -> None:
        """Remove a message by its key, with the commit.

        Raises: NotFoundError if there is no such message, or another transaction has it; and as `get`.
        """
        self.check()
        self._store._remove(self, queue, key)

    def prepare(self, xid: Xid) -> None:
        """Prepare the transaction, durably: it waits for `commit` or `rollback`, also in the next process.

        It keeps the messages that it got, and no other transaction gets those that it puts.  xid: its name, which no
        other prepared transaction may have.
        Raises: ValueError; StateError if another one has the name; and as `commit`.
        """
        self.check()
        self._store._prepare(self, xid)

    def commit(self, *, mode: Mode | str | None = None) -> None:
        """Commit; the commit of a prepared transaction is always durable.

        mode: Mode.SYNC: it is on the disk when this returns.  Mode.FLUSH: it is in the file, and survives the process.
        None: the store's mode.
        Raises: NotFoundError if a queue was deleted; FullError; CorruptError; AccessError; after these it is still
        open, and nothing was committed.  StateError; ClosedError; PoisonedError, after which it may be committed at the
        next opening.
        """
        if self.state is State.PREPARED and self.xid is not None:
            self._store.commit_prepared(self.xid)
            self.state = State.COMMITTED
            return
        self.check()
        self._store._commit(self, mode)

    def rollback(self, *, delay: float = 0.0) -> None:
        """Discard the transaction; its messages can be got again, with higher delivery counts.

        delay: seconds until then; the next opening returns them at once.  A message that was delivered `deliveries_max`
        times goes to the dead letters.
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
        """Raise StateError if the transaction has ended."""
        if self.state is not _OPEN:
            raise StateError(f"the transaction {self.tx_id} is {self.state.value}")

    def end(self, state: State) -> None:
        """Set the final state."""
        self.state = state
        self.puts.clear()
        self.taken.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit; roll back if the block raised, or if the commit fails."""
        if error is not None:
            self._store._abandon(self)
        elif self.state is _OPEN:
            try:
                self.commit()
            except BinlogError:
                self._store._abandon(self)
                raise
