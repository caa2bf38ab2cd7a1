"""The queues of a page store: applies transactions to memory, pages and the log.

The caller holds the store's mutex.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from binlog.errors import (
    AccessError,
    BinlogError,
    CorruptError,
    FullError,
    InternalError,
    NotFoundError,
    PoisonedError,
    StateError,
)
from binlog.format.pagestore.index import IndexHead, QueueEntry, RootEntry
from binlog.format.pagestore.page import page_content_bytes
from binlog.pagestore.deliveries import Deliveries
from binlog.pagestore.options import PageStoreOptions
from binlog.pagestore.pages.cache import Cache
from binlog.pagestore.pages.changes import Changes
from binlog.pagestore.pages.generation import FreePages
from binlog.pagestore.pages.messages import free_message, read_message, write_message
from binlog.pagestore.pages.root_index import RootIndex
from binlog.pagestore.queue import Queue
from binlog.pagestore.transaction import Message, Put, State, Taken, Transaction
from binlog.pagestore.transaction_log import TransactionLog
from binlog.storage.redelivery import DelayQueue

# How many messages of a deleted queue are removed at a time.
_REMOVED_TOGETHER = 1000

Added = list[tuple[Queue, QueueEntry]]


class Queues:
    """All queues of a store.  first_pages: the first index page of each queue, by name."""

    def __init__(
        self, cache: Cache, free: FreePages, log: TransactionLog, deliveries: Deliveries, options: PageStoreOptions
    ) -> None:
        """Raises: CorruptError; AccessError."""
        self.deliveries = deliveries
        self._options = options
        self._delayed: DelayQueue[Taken] = DelayQueue()
        self.cache = cache
        self.free = free
        self.log = log
        self.root = RootIndex(cache)
        self.first_pages = self.root.queues
        self._queues: dict[str, Queue] = {}
        # The number of entries of each message that has, or had, more than one; None until it is needed.
        self._entry_counts: dict[int, int] | None = None

    def get(self, name: str) -> Queue:
        """Return a queue; read its index the first time.  Raises: NotFoundError; CorruptError; AccessError."""
        queue = self._queues.get(name)
        if queue is None:
            if name not in self.first_pages:
                raise NotFoundError(f"no queue is named {name!r}")
            queue = self._queues[name] = Queue(name, self.cache, self.first_pages[name])
        if queue.is_stale:
            queue.read_again()
        return queue

    def create(self, name: str) -> bool:
        """Create a queue; return False if it exists.  Raises: FullError; CorruptError; AccessError."""
        if name in self.first_pages:
            return False

        def change(changes: Changes) -> None:
            number = changes.take()
            content = IndexHead().pack().ljust(page_content_bytes(self.cache.file.page_bytes), b"\0")
            changes.create(number, bytearray(content))
            root.add(changes, RootEntry(name, number))

        root = self.root.copy()
        self.change(change)
        self._take_root(root)
        self.deliveries.forget_queue(self.first_pages[name])
        return True

    def _take_root(self, root: RootIndex) -> None:
        self.root = root
        self.first_pages = root.queues

    def delete_some(self, name: str) -> bool:
        """Remove messages of a queue, or the queue itself if it is empty; return whether it was deleted.

        Raises: NotFoundError; StateError if a transaction has a message of it; FullError; CorruptError; AccessError.
        """
        queue = self.get(name)
        self._end_delays()
        if queue.taken != queue.unreadable:
            raise StateError(f"a transaction has a message of the queue {name!r}")
        while queue.unreadable:
            queue.give_back(queue.index.entry(queue.unreadable.pop(), self.cache))
        if queue.waiting_count:
            self._remove_some(queue)
            return False

        def change(changes: Changes) -> None:
            changes.use(queue)
            for part in queue.index.parts:
                changes.free(part.number)
            root.remove(changes, name)

        root = self.root.copy()
        self.change(change)
        del self._queues[name]
        self._take_root(root)
        self.deliveries.forget_queue(queue.index.first_page)
        return True

    def _remove_some(self, queue: Queue) -> None:
        taken: list[Taken] = []
        try:
            while len(taken) < _REMOVED_TOGETHER and (entry := queue.next()) is not None:
                queue.take(entry)
                taken.append((queue, entry))
            self.exchange(taken, [], 0)
        except BaseException:
            for _, entry in taken:
                if entry.key in queue.taken:
                    queue.give_back(entry)
            raise

    def take_next(self, transaction: Transaction, name: str) -> Message | None:
        """Take the next message of a queue for a transaction, and return it, or None.

        Raises: NotFoundError; StateError; CorruptError, AccessError if it cannot be read, after which it is skipped.
        """
        transaction.check()
        queue = self.get(name)
        for each, due in self._delayed.take_due():
            each.give_back(due)
        while (entry := self._next(queue)) is not None and self._is_dead(queue, entry.delivery_count):
            queue.take(entry)
            if not self._dead_letter(queue, entry, 0):
                break
        if entry is None:
            return None
        return self._deliver(transaction, queue, entry)

    def _next(self, queue: Queue) -> QueueEntry | None:
        entry = queue.next()
        return None if entry is None else self.deliveries.with_known_count(queue.index.first_page, entry)

    def _deliver(self, transaction: Transaction, queue: Queue, entry: QueueEntry) -> Message:
        name = queue.name
        try:
            body = read_message(self.cache, entry.message_page)
        except CorruptError as error:
            queue.skip_unreadable(entry)
            text = f"{error.text}; message {entry.key} of the queue {name!r} is skipped"
            raise CorruptError(error.path, error.offset, error.rule, text) from error
        except AccessError:
            queue.skip_unreadable(entry)
            raise
        try:
            self.deliveries.record(queue.index.first_page, entry)
        except PoisonedError as error:
            self.log.fail(error)
            raise
        queue.take(entry)
        transaction.taken.append((queue, entry))
        self._trim()
        return Message(name, entry.key, body, entry.priority, entry.delivery_count, entry.expiration)

    def take_by_key(self, transaction: Transaction, name: str, key: int) -> None:
        """Take a message for a transaction.  Raises: as `take_next`; NotFoundError if another transaction has it."""
        transaction.check()
        queue = self.get(name)
        self._end_delays()
        entry = queue.index.entry(key, self.cache)
        if key in queue.unreadable:
            queue.unreadable.discard(key)
            queue.give_back(entry)
        if key in queue.taken:
            raise NotFoundError(f"another transaction has message {key} of the queue {name!r}")
        queue.take(entry)
        transaction.taken.append((queue, entry))

    def commit(self, transaction: Transaction) -> bool:
        """Apply a transaction; return False if it did nothing.

        Raises: NotFoundError; StateError; FullError; CorruptError; AccessError; after these the transaction is
        unchanged.
        """
        transaction.check()
        if transaction.puts or transaction.taken:
            self.exchange(transaction.taken, transaction.puts, transaction.tx_id)
        did_something = bool(transaction.puts or transaction.taken)
        transaction.end(State.COMMITTED)
        return did_something

    def roll_back(self, transaction: Transaction, delay: float = 0.0) -> None:
        """Discard a transaction.  Raises: StateError."""
        transaction.check()
        self.return_messages(transaction.taken, transaction.tx_id, delay)
        transaction.end(State.ROLLED_BACK)

    def return_messages(self, taken: list[Taken], tx_id: int, delay: float = 0.0) -> None:
        """Return the messages of a transaction to their queues after `delay` seconds, with higher delivery counts."""
        if not taken:
            return
        counts = [self._count_of(queue, entry) for queue, entry in taken]
        self._count_deliveries(taken, counts, tx_id)
        for (queue, entry), count in zip(taken, counts, strict=True):
            if self._is_dead(queue, count) and self._dead_letter(queue, entry, tx_id):
                continue
            if delay:
                self._delayed.add(delay, (queue, entry))
            elif entry.key in queue.taken:
                queue.give_back(entry)

    def _count_of(self, queue: Queue, entry: QueueEntry) -> int:
        """Return the delivery count of a message that is returned."""
        return max(
            entry.delivery_count + 1, self.deliveries.with_known_count(queue.index.first_page, entry).delivery_count
        )

    def _end_delays(self) -> None:
        for queue, entry in self._delayed.take_all():
            queue.give_back(entry)

    def _is_dead(self, queue: Queue, count: int) -> bool:
        limit = self._options.deliveries_max
        return limit is not None and count >= limit and queue.name != self._options.dead_letters

    def _dead_letter(self, queue: Queue, entry: QueueEntry, tx_id: int) -> bool:
        """Move a taken message to the dead letters; if that fails now, return it to its queue, and return False."""
        name = self._options.dead_letters
        try:
            self.create(name)
            body = read_message(self.cache, entry.message_page)
            self.exchange([(queue, entry)], [Put((name,), body, entry.priority, entry.expiration)], tx_id)
        except (FullError, CorruptError, AccessError):
            if entry.key in queue.taken:
                queue.give_back(entry)
            return False
        return True

    def exchange(
        self,
        taken: list[Taken],
        puts: list[Put],
        tx_id: int,
        *,
        then: Callable[[Changes, Added], Added] | None = None,
    ) -> Added:
        """Remove messages that a transaction has, and put others, in one change.

        then: called with the messages that were put; it puts more.
        Raises: NotFoundError; FullError; CorruptError; AccessError; after these nothing has changed.
        """
        into = [[self.get(name) for name in put.queues] for put in puts]
        are_shared = [entry for _, entry in taken if entry.sharer_count > 1]
        entry_counts = self._count_entries() if are_shared else {}
        added: Added = []
        removed: dict[int, int] = {}

        def change(changes: Changes) -> None:
            for queue, entry in taken:
                page = entry.message_page
                changes.use(queue)
                queue.index.remove(changes, entry.key)
                removed[page] = count = removed.get(page, 0) + 1
                if entry_counts.get(page, 1) == count:
                    free_message(changes, page)
            added.extend(put_messages(changes, puts, into))
            if then is not None:
                added.extend(then(changes, list(added)))

        self.change(change, tx_id=tx_id)
        for queue, entry in taken:
            queue.removed(entry.key)
            self.deliveries.forget(queue.index.first_page, entry.key)
        for queue, entry in added:
            queue.added(entry)
        if self._entry_counts is not None:
            for page in entry_counts.keys() & removed.keys():
                self._entry_counts[page] -= removed[page]
                if not self._entry_counts[page]:
                    del self._entry_counts[page]  # another message may soon get the page
            self._entry_counts.update(
                (entry.message_page, entry.sharer_count) for _, entry in added if entry.sharer_count
            )
        return added

    def _count_entries(self) -> dict[int, int]:
        """Return how many entries each shared message has.  Raises: CorruptError; AccessError."""
        counts = self._entry_counts
        if counts is None:
            counts = {}
            for name in self.first_pages:
                for entry in self.get(name).index.entries(self.cache):
                    if entry.valid and entry.sharer_count > 1:
                        counts[entry.message_page] = counts.get(entry.message_page, 0) + 1
            self._entry_counts = counts
        return counts

    def _count_deliveries(self, taken: list[Taken], counts: list[int], tx_id: int) -> None:
        def change(changes: Changes) -> None:
            for (queue, entry), count in zip(taken, counts, strict=True):
                changes.use(queue)
                queue.index.count_deliveries(changes, entry.key, count)

        try:
            self.change(change, tx_id=tx_id)
        except (FullError, CorruptError, AccessError):
            return  # the higher count is lost, but the messages can be got again

    def change(self, change: Callable[[Changes], None], *, tx_id: int = 0) -> None:
        """Change pages and log the change, all of it or nothing.  Raises: as `change`, and FullError."""
        changes = Changes(self.cache, self.free)
        try:
            change(changes)
            actions = changes.actions()
            record = self.log.pack(tx_id, actions)
            self.log.reserve(len(record))
        except BaseException as error:
            self._undo(changes, error)
            raise
        if actions:
            changes.mark_logged(self.log.append(record))
        self._trim()

    def _undo(self, changes: Changes, error: BaseException) -> None:
        try:
            changes.undo()
            for queue in changes.queues:
                with suppress(CorruptError, AccessError):  # the next caller that needs it gets the error
                    queue.read_again()
        except BaseException as failure:
            self.log.fail(failure if isinstance(failure, BinlogError) else InternalError(repr(failure)))
            raise
        if not isinstance(error, BinlogError):
            self.log.fail(InternalError(f"in a change of pages: {error!r}"))

    def _trim(self) -> None:
        try:
            self.cache.trim(self.log.durable)
        except FullError:
            return  # pages without disk space stay in memory and in the log
        except BinlogError as error:
            self.log.fail(error)


def put_messages(changes: Changes, puts: list[Put], into: list[list[Queue]]) -> Added:
    """Put messages into their queues; store and share a body once if several queues get it."""
    sharings = _sharings(puts)
    pages: dict[int, int] = {}
    added = []
    for put, queues, sharing in zip(puts, into, sharings, strict=True):
        page = pages.get(id(sharing))
        if page is None:
            page = pages[id(sharing)] = write_message(changes, put.body)
        sharer_count = len(sharing) if len(sharing) > 1 else 0
        for queue in queues:
            changes.use(queue)
            entry = QueueEntry(1, put.priority, 0, put.expiration, queue.index.max_key + 1, page, sharer_count)
            queue.index.add(changes, entry)
            added.append((queue, entry))
    return added


def _sharings(puts: list[Put]) -> list[set[str]]:
    """Return the queues that share each message; if a queue gets the same body twice, it is stored twice."""
    if len(puts) < 2:
        return [set(put.queues) for put in puts]
    last: dict[bytes, set[str]] = {}
    sharings = []
    for put in puts:
        sharing = last.get(put.body)
        if sharing is None or not sharing.isdisjoint(put.queues):
            sharing = last[put.body] = set()
        sharing.update(put.queues)
        sharings.append(sharing)
    return sharings
