"""A durable queue with a limit on its memory.

Every message is written to a page once, at `put`, so it survives the process.  While memory has room, messages are
delivered from there.  The others are read from their pages, many at a time.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from binlog.errors import BinlogError, FullError, StateError
from binlog.format.problem import Problem
from binlog.format.values import byte_count
from binlog.paging.addresses import Commit
from binlog.paging.manager import PagingManager
from binlog.paging.memory import RECHECK_SECONDS, wait_for_notice
from binlog.paging.page_transaction import Outcome
from binlog.queue.memory import Message, QueueMemory
from binlog.queue.transaction import QueueTransaction
from binlog.storage.files import commit_at
from binlog.storage.handle import Closing
from binlog.storage.mode import Mode, waits_for_sync
from binlog.storage.native import CommitGroup, Guard, Monitor, fork_generation
from binlog.storage.redelivery import check_delay, retry_delay


class SharedSync:
    """Shares a sync between threads: one of them syncs, and later callers share the next sync."""

    def __init__(self, guard: Guard, sync: Callable[[Commit], None]) -> None:
        """sync: syncs everything that was written; it syncs the last file, if any, with the function that it gets."""
        self._group = CommitGroup(guard)
        self._sync = sync
        self._tickets = count(1)

    def wait(self) -> None:
        """Return after a sync that began after this call has ended.

        Raises: any exception of `sync`; PoisonedError; StateError if a signal handler has interrupted a sync of this
        thread.
        """
        with self._group.lead_or_wait(next(self._tickets)) as leads:
            if leads:
                # Every thread with a smaller ticket had finished its writes.
                through = next(self._tickets)
                self._sync(partial(self._commit, through))
                if self._group.durable < through:  # there was nothing to sync
                    self._group.begin(through, True)
                    self._group.finish()

    def _commit(self, through: int, fd: int, path: str) -> None:
        self._group.begin(through, True)
        commit_at(self._group, fd, b"", 0, path)


ADDRESS = "queue"
DEAD_LETTER_ADDRESS = "queue.dead"
MEMORY_BYTES = 16 << 20


class Queue(QueueMemory, Closing):
    """A queue in a folder, opened by `binlog.open_queue`.  One process has it at a time; its threads may share it.

    After the queue is opened again, messages that were not acknowledged are delivered again, in their order.  It is a
    context manager.  Methods work as those of `queue.Queue` unless their documentation says otherwise; `ack` replaces
    `task_done`.

    mode: how durable a message or an acknowledgement is when `put` or `ack` returns.  Mode.SYNC: it is on the disk;
    threads that wait share a sync.  Mode.FLUSH: it survives the process.  It survives a power cut only after a sync:
    pages are synced when they are full, acknowledgements by `sync` or `close`.

    If an exception of a signal handler breaks off a change, every later call raises PoisonedError until the queue is
    opened again.  During a wait such an exception changes nothing.
    """

    def __init__(
        self,
        manager: PagingManager,
        *,
        mode: Mode | str = Mode.SYNC,
        memory_bytes: int = MEMORY_BYTES,
        deliveries_max: int | None = None,
        close: Callable[[], None] | None = None,
        dead_letters_of: Queue | None = None,
    ) -> None:
        """manager: started; the queue stops it.  memory_bytes: limit of messages that no consumer has got.

        deliveries_max: a message that was delivered this often, and not acknowledged, goes to `dead_letters`.
        close: called after the manager was stopped.  dead_letters_of: the queue whose dead letters these are; it stops
        the manager.
        Raises: ValueError; and as `PagingManager.store`.
        """
        memory_bytes = byte_count(memory_bytes, "memory_bytes")
        if deliveries_max is not None and deliveries_max < 1:
            raise ValueError(f"deliveries_max={deliveries_max!r}")
        self._is_synced = waits_for_sync(mode, "queue")
        super().__init__(manager, ADDRESS if dead_letters_of is None else DEAD_LETTER_ADDRESS, memory_bytes)
        self._mode = mode
        self._dead_letters_of = dead_letters_of
        self._dead: Queue | None = None
        self._dead_mutex = Monitor()
        self._deliveries_max = deliveries_max
        self._close = close
        self._append = self._store.append
        self._put_sync = SharedSync(self._guard, self._store.sync)
        self._ack_sync = SharedSync(self._guard, self._cursor.sync)
        self._store.start_paging()

    @property
    def problems(self) -> list[Problem]:
        """The damage that was found so far.  The messages of a page before its damage are delivered."""
        return [*self._manager.problems, *self._store.problems]

    def put(
        self, message: bytes, block: bool = True, timeout: float | None = None, *, mode: Mode | str | None = None
    ) -> None:
        """Put a message of 0 to 2**31-129 bytes.  mode: overrides the mode of the queue.

        A consumer can get it at once, even before it is durable.  After an exception of a signal handler it may be in
        the queue.
        Blocks: for the write; if all pages are full, until one is removed; in Mode.SYNC for a sync.
        Raises: queue.Full if all pages are still full after `timeout` seconds; FullError if the disk is full;
        ClosedError; PoisonedError; StateError in a forked child; TypeError; ValueError.
        """
        is_synced = self._is_synced if mode is None else waits_for_sync(mode, "queue")
        if fork_generation() != self._generation:
            self._check_open()
        if is_synced:
            self._manager.check_owned()
        with self._mutex:
            is_put = self._put(message)
        if not is_put:
            self._put_when_room(message, block, timeout)
        if is_synced:
            self._put_sync.wait()

    def put_nowait(self, message: bytes, *, mode: Mode | str | None = None) -> None:
        """Put a message without waiting for a page to be removed."""
        self.put(message, block=False, mode=mode)

    def get(self, block: bool = True, timeout: float | None = None) -> Message:
        """Return the next message; no other consumer gets it before the queue is opened again.

        The delivery is written first, without a sync, so that `delivery_count` survives the process.  A message that
        was delivered `deliveries_max` times before goes to `dead_letters` instead.
        Raises: queue.Empty if there is none after `timeout` seconds; ClosedError; PoisonedError; AccessError;
        StateError in a forked child; ValueError.
        """
        if fork_generation() != self._generation or self._guard.failure is not None:
            self._check_open()
        if self._delayed:
            self._requeue_due()
        try:
            message = self._ready.popleft()
        except IndexError:
            return self._get_slow(block, timeout)
        return message if self._record_delivery(message) else self._get_slow(block, timeout)

    def get_nowait(self) -> Message:
        """Return the next message without waiting for one."""
        return self.get(block=False)

    def ack(self, message: Message, *, mode: Mode | str | None = None) -> None:
        """Acknowledge a message: it is never delivered again.  mode: overrides the mode of the queue.

        If a power cut takes an acknowledgement of Mode.FLUSH, the message is delivered again.
        Raises: StateError if it was acknowledged before; GoneError if it was, and so was the rest of its page;
        FullError; ClosedError; PoisonedError; AccessError.
        """
        is_synced = self._is_synced if mode is None else waits_for_sync(mode, "queue")
        if fork_generation() != self._generation:
            self._check_open()
        try:
            self._cursor.ack(message.message_id)
            if is_synced:
                self._ack_sync.wait()
        finally:
            if self._drain_wait.waiting_count:
                self._drain_wait.notify()

    def nack(self, message: Message, *, delay: float | None = None) -> None:
        """Return a message that was not acknowledged, to be delivered again.

        delay: seconds until then.  By default, 0 the first time, then 0.1 s, doubling each time up to a minute.  It is
        delivered before all other messages, and at once if the queue is opened again.  A message that was delivered
        `deliveries_max` times goes to `dead_letters`.
        Blocks: for such a message as the commit of a transaction does.
        Raises: ValueError; StateError; ClosedError; PoisonedError; and for such a message as that commit.
        """
        self._check_open()
        check_delay(delay)
        again = message._replace(delivery_count=message.delivery_count + 1)
        if self._is_dead(again):
            self._dead_letter(again)
            return
        seconds = retry_delay(again.delivery_count) if delay is None else delay
        with self._mutex:
            self._check()
            if seconds:
                self._delayed.add(seconds, again)
            else:
                self._ready.appendleft(again)
            self._notify(1)

    @property
    def dead_letters(self) -> Queue:
        """The queue of messages that were delivered too often.  It is closed with this queue.

        Raises: StateError if this is a queue of dead letters itself; FullError; AccessError; ClosedError;
        PoisonedError.
        """
        self._check_open()
        if self._dead_letters_of is not None:
            raise StateError("a queue of dead letters has no dead letters of its own")
        with self._dead_mutex:
            if self._dead is None:
                self._dead = Queue(
                    self._manager, mode=self._mode, memory_bytes=self._memory_bytes, dead_letters_of=self
                )
            return self._dead

    def transaction(self) -> QueueTransaction:
        """Begin a transaction: its puts and acknowledgements take effect together at its commit, or not at all."""
        return QueueTransaction(partial(self._commit, self))

    def qsize(self) -> int:
        """Return about how many messages no consumer has got; after a crash uncommitted ones may count."""
        self._check_open()
        return len(self._ready) + len(self._delayed) + (0 if self._serves_from_memory else self._cursor.unread_count())

    def empty(self) -> bool:
        """Whether `get_nowait` would find no message now.  Blocks: for reading, if there is none in memory."""
        self._check_open()
        self._requeue_due()
        self._refill()
        return not self._ready

    def full(self) -> bool:
        """Whether the queue has its maximum number of pages."""
        self._check_open()
        return not self._store.has_room

    @property
    def unacknowledged_count(self) -> int:
        """How many messages were not acknowledged, including those that consumers have got."""
        self._check_open()
        return self._cursor.unacknowledged_count()

    def join(self) -> None:
        """Wait until all messages were acknowledged, except those of transactions that were not committed.

        Blocks: also for reading the messages that no consumer has got.
        Raises: ClosedError; PoisonedError; AccessError; StateError.
        """
        self._check_open()
        self._drain_wait.wait(self._refill, self._is_drained)

    def _is_drained(self) -> bool:
        self._check()
        return self._cursor.unacknowledged_count() == 0

    def sync(self) -> None:
        """Make all messages and acknowledgements durable.  Raises: PoisonedError; ClosedError; StateError."""
        self._check_open()
        self._put_sync.wait()
        self._ack_sync.wait()

    def close(self) -> None:
        """Make everything durable, and close.

        A second call does nothing, or finishes a call that an exception broke off.
        Raises: PoisonedError, also if an earlier failure has poisoned the queue; it is closed then too.  StateError if
        a signal handler has interrupted a sync of this thread: let the handler raise instead.
        """
        if fork_generation() != self._generation:
            return
        self._manager.check_not_reentered()
        with self._mutex:
            self._is_closed = True
            self._ready.clear()
            self._delayed.clear()
            self._mutex.notify()
            self._drain_wait.notify_locked()
        if self._dead_letters_of is not None:
            return  # its manager stays open
        with self._dead_mutex:
            if self._dead is not None:
                self._dead.close()
        failure = None
        try:
            self._manager.stop()
        except BinlogError as error:
            failure = error
        if self._close is not None:
            self._close()
        if failure is not None:
            raise failure

    def _put(self, message: bytes) -> bool:
        """Put a message; return False if all pages are full.  The caller holds the mutex.  Raises: as `put`."""
        try:
            message_id = self._append(message)
            if message_id is not None and self._serves_from_memory:
                self._offer(message_id, message)
        except FullError as error:
            if error.limit is None:
                raise
            return False  # the limit is that of the queue, not of the disk
        except BaseException:
            if self._guard.failure is None:
                with self._change:  # no signal handler runs before it begins
                    self._switch_to_pages()
            raise
        if self._waiting:
            self._notify(1)
        return message_id is not None

    def _put_when_room(self, message: bytes, block: bool, timeout: float | None) -> None:
        """Put a message after waiting for room for a page.  Raises: queue.Full; and as `put`."""
        end = _deadline(timeout)
        while block and self._store.wait_for_room(None if end is None else max(end - time.monotonic(), 0)):
            with self._mutex:
                is_put = self._put(message)
            if is_put:
                return
        raise queue.Full

    def _get_slow(self, block: bool, timeout: float | None) -> Message:
        self._check_open()
        end = _deadline(timeout if block else None)
        while True:
            self._requeue_due()
            self._refill()
            try:
                message = self._ready.popleft()
            except IndexError:
                self._check()
            else:
                if self._record_delivery(message):
                    return message
                continue
            wait = None if end is None else end - time.monotonic()
            if not block or (wait is not None and wait <= 0):
                raise queue.Empty
            with self._mutex:
                due = self._delayed.wait_seconds()
                if due is not None:
                    wait = due if wait is None else min(wait, due)
                # A producer reads `_waiting` under the mutex; everything that was put before is visible here.
                self._waiting += 1
                try:
                    if not self._ready and (self._serves_from_memory or self._committing) and not self._is_closed:
                        wait_for_notice(self._mutex, RECHECK_SECONDS if wait is None else min(wait, RECHECK_SECONDS))
                finally:
                    self._waiting -= 1

    def _is_dead(self, message: Message) -> bool:
        return self._deliveries_max is not None and message.delivery_count >= self._deliveries_max

    def _record_delivery(self, message: Message) -> bool:
        """Record a delivery; return False if the message was delivered too often and became a dead letter.

        If this raises, the message is the next one again.
        """
        try:
            if self._is_dead(message):
                self._dead_letter(message)
                return False
            self._cursor.deliveries.record(message.message_id, message.delivery_count + 1)
        except BaseException:
            with self._mutex:
                self._ready.appendleft(message)
            raise
        return True

    def _dead_letter(self, message: Message) -> None:
        """Put a message into the dead letters and acknowledge it here, in one transaction."""
        self._commit(self.dead_letters, (message.body,), ((message.message_id, 1),))

    def _commit(self, into: Queue, messages: Iterable[bytes], acked: Iterable[tuple[int, int]]) -> None:
        """Commit puts and acknowledgements in one durable transaction.

        into: the queue of the messages.  acked: ids of messages here, each with the number of consecutive messages.
        """
        self._check_open()
        transaction = self._manager.begin()
        with into._mutex:
            into._committing += 1
        try:
            with into._mutex:
                # The messages are read from pages after the commit, and later ones not before them.
                with self._change:
                    into._switch_to_pages()
                for message in messages:
                    into._store.append(message, transaction)
            for message_id, message_count in acked:
                self._cursor.ack(message_id, message_count, transaction)
            transaction.commit()
        except BaseException as error:
            if transaction.state is Outcome.OPEN and self._guard.failure is None:
                with self._change:  # no signal handler runs before it begins
                    transaction.rollback()
            if isinstance(error, FullError) and error.limit is not None:
                raise queue.Full from error
            raise
        finally:
            with into._mutex:
                into._committing -= 1
                into._mutex.notify()
            self._drain_wait.notify()


def _deadline(timeout: float | None) -> float | None:
    """Return the deadline on the monotonic clock.  Raises: ValueError."""
    if timeout is None:
        return None
    if timeout < 0:
        raise ValueError(f"timeout={timeout!r}")
    return time.monotonic() + timeout
