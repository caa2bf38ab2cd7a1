"""A queue with a limit on its memory that survives the process; what does not fit in memory is read from pages.

Every message is put into a page at once, so that it survives the process, and never written again.  While there is
room in memory it is given from there; what is beyond is read from its page, many messages at a time.

A sync that all who wait for one share.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from binlog.errors import BinlogError, FullError, StateError
from binlog.format.problem import Problem
from binlog.format.values import byte_count, member
from binlog.paging.addresses import Commit
from binlog.paging.manager import PagingManager
from binlog.paging.memory import RECHECK_SECONDS, wait_for_notice
from binlog.paging.page_transaction import Outcome
from binlog.queue.memory import Message, QueueMemory
from binlog.queue.transaction import QueueTransaction
from binlog.storage.files import commit_at
from binlog.storage.group_commit import Mode
from binlog.storage.handle import Closing
from binlog.storage.native import CommitGroup, Guard, Monitor, fork_generation
from binlog.storage.redelivery import check_delay, retry_delay


class SharedSync:
    """One of those who wait syncs, in its own thread; those who come meanwhile share the next sync."""

    def __init__(self, guard: Guard, sync: Callable[[Commit], None]) -> None:
        """sync: syncs all that was written, the last file by the function that it gets, if there is any."""
        self._group = CommitGroup(guard)
        self._sync = sync
        self._tickets = count(1)

    def wait(self) -> None:
        """Return once a sync was begun after this call, and has ended.

        Raises: what `sync` raises; PoisonedError; StateError in a signal handler that broke into a sync of this thread.
        """
        with self._group.turn(next(self._tickets)) as leads:
            if leads:
                # All who have a smaller ticket than this one had written what they wait for.
                through = next(self._tickets)
                self._sync(partial(self._commit, through))
                if self._group.durable < through:  # nothing was left to be synced
                    self._group.begin(through, True)
                    self._group.reach()

    def _commit(self, through: int, fd: int, path: str) -> None:
        self._group.begin(through, True)
        commit_at(self._group, fd, b"", 0, path)


ADDRESS = "queue"
DEAD_LETTER_ADDRESS = "queue.dead"
MEMORY_BYTES = 16 << 20


class Queue(QueueMemory, Closing):
    """A queue in a folder, for this process, whose threads may share it; `binlog.open_queue` opens one.

    What was put and not acknowledged is given again, in its order, after the queue was opened anew.  It is a context
    manager.  Where nothing is said of it, methods are as those of `queue.Queue`; `ack` stands for its `task_done`.

    mode: how far a message, or an acknowledgement, is when `put` or `ack` has returned.  Mode.SYNC: on the disk, by a
    sync that all who wait share.  Mode.FLUSH: it survives the process, and the machine's failure only once its page
    was synced: pages are when they are full, acknowledgements with `sync` or `close`.

    If an exception of a signal handler comes in the middle of a change, all that follows is refused (PoisonedError)
    until the queue is opened anew; in a wait it changes nothing.
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
        """manager: started; the queue stops it.  memory_bytes: of messages that nobody has got yet, about.

        deliveries_max: a message that was given so often, and not acknowledged, is put into `dead_letters`.
        close: called when the manager was stopped.  dead_of: whose dead letters it has, which stops the manager.
        Raises: ValueError; and as `PagingManager.store`.
        """
        memory_bytes = byte_count(memory_bytes, "memory_bytes")
        if deliveries_max is not None and deliveries_max < 1:
            raise ValueError(f"deliveries_max={deliveries_max!r}")
        self._is_synced = _is_synced(mode)
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
        """What was found damaged so far; what a page has before the damage is given."""
        return [*self._manager.problems, *self._store.problems]

    def put(
        self, message: bytes, block: bool = True, timeout: float | None = None, *, mode: Mode | str | None = None
    ) -> None:
        """Put a message.  message: 0..2**31-129 bytes.  mode: as the queue's, for this message.

        It can be got at once, also before it is durable.  After an exception of a signal handler it may be there.
        Blocks: for the write; where there may be no more pages, until one goes; in Mode.SYNC for a sync.
        Raises: queue.Full where there may be no more pages, and `timeout` seconds were too few; FullError for a full
        disk, however many pages there are; ClosedError; PoisonedError; StateError in a forked child; TypeError;
        ValueError.
        """
        is_synced = self._is_synced if mode is None else _is_synced(mode)
        if fork_generation() != self._generation:
            self._refuse()
        if is_synced:
            self._manager.check_owned()
        with self._mutex:
            is_put = self._put(message)
        if not is_put:
            self._put_when_room(message, block, timeout)
        if is_synced:
            self._put_sync.wait()

    def put_nowait(self, message: bytes, *, mode: Mode | str | None = None) -> None:
        """As `put`, which does not wait for a page to go."""
        self.put(message, block=False, mode=mode)

    def get(self, block: bool = True, timeout: float | None = None) -> Message:
        """The message that comes next; nobody else gets it before the queue is opened anew.

        That it is given is written first, so that its `delivery_count` survives the process.  Nothing is synced.
        A message that was given `deliveries_max` times before is put into `dead_letters` instead.
        Raises: queue.Empty where there is none, and `timeout` seconds were too few; ClosedError; PoisonedError;
        AccessError; StateError in a forked child; ValueError.
        """
        if fork_generation() != self._generation or self._guard.failure is not None:
            self._refuse()
        if self._delayed:
            self._requeue_due()
        try:
            message = self._ready.popleft()
        except IndexError:
            return self._get_slow(block, timeout)
        return message if self._record_delivery(message) else self._get_slow(block, timeout)

    def get_nowait(self) -> Message:
        """As `get`, which waits for none to be put."""
        return self.get(block=False)

    def ack(self, message: Message, *, mode: Mode | str | None = None) -> None:
        """Say that a message is done with: it is never given again.  mode: as the queue's, for this one.

        In Mode.FLUSH an acknowledgement that the machine's failure takes back has the message given again.
        Raises: StateError where that was said before; GoneError where it was, and all else in its page, too; FullError;
        ClosedError; PoisonedError; AccessError.
        """
        is_synced = self._is_synced if mode is None else _is_synced(mode)
        if fork_generation() != self._generation:
            self._refuse()
        try:
            self._cursor.ack(message.message_id)
            if is_synced:
                self._ack_sync.wait()
        finally:
            if self._drain_wait.waiting_count:
                self._drain_wait.notify()

    def nack(self, message: Message, *, delay: float | None = None) -> None:
        """Give a message back that was got and not acknowledged; one that was given `deliveries_max` times is dead.

        delay: it comes again after so many seconds, before all others; if none is said, at once the first time, then
        after 0.1 s, and after twice as long each time, a minute at most.  The queue opened anew gives it at once.
        Blocks: for one that is dead as a transaction's commit does.
        Raises: ValueError; StateError; ClosedError; PoisonedError; for one that is dead as a transaction's commit.
        """
        self._refuse()
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
        """The queue of messages that were given too often; it is closed with this one.

        Raises: StateError for one that is such a queue; FullError; AccessError; ClosedError; PoisonedError.
        """
        self._refuse()
        if self._dead_letters_of is not None:
            raise StateError("this is the queue of dead letters")
        with self._dead_mutex:
            if self._dead is None:
                self._dead = Queue(
                    self._manager, mode=self._mode, memory_bytes=self._memory_bytes, dead_letters_of=self
                )
            return self._dead

    def transaction(self) -> QueueTransaction:
        """A transaction: of what is put and acknowledged with it all is there once it is committed, or nothing."""
        return QueueTransaction(partial(self._commit, self))

    def qsize(self) -> int:
        """How many messages nobody has got yet, about: after a crash also some that were never committed may count."""
        self._refuse()
        return len(self._ready) + len(self._delayed) + (0 if self._serves_from_memory else self._cursor.unread_count())

    def empty(self) -> bool:
        """Whether `get_nowait` would now find none.  Blocks: for reading, where none is in memory."""
        self._refuse()
        self._requeue_due()
        self._refill()
        return not self._ready

    def full(self) -> bool:
        """Whether there may be no more pages than there are."""
        self._refuse()
        return not self._store.has_room

    @property
    def unacknowledged_count(self) -> int:
        """How many messages were not acknowledged, whether somebody has got them or not."""
        self._refuse()
        return self._cursor.unacknowledged_count()

    def join(self) -> None:
        """Wait until all messages were acknowledged, but those of transactions that were not committed.

        Blocks: also for reading what comes behind the messages that were got.
        Raises: ClosedError; PoisonedError; AccessError; StateError.
        """
        self._refuse()
        self._drain_wait.wait(self._refill, self._is_drained)

    def _is_drained(self) -> bool:
        self._check()
        return self._cursor.unacknowledged_count() == 0

    def sync(self) -> None:
        """Have all that was put and acknowledged be durable.  Raises: PoisonedError; ClosedError; StateError."""
        self._refuse()
        self._put_sync.wait()
        self._ack_sync.wait()

    def close(self) -> None:
        """Have all be durable, and end; a second call does nothing, or what one left that an exception ended.

        Raises: PoisonedError, also where something failed before that made it refuse all; it is closed then too.
        StateError in a signal handler that broke into a sync of this thread: have it raise instead.
        """
        if fork_generation() != self._generation:
            return
        self._manager.refuse_reentry()
        with self._mutex:
            self._is_closed = True
            self._ready.clear()
            self._delayed.clear()
            self._mutex.notify()
            self._drain_wait.notify_locked()
        if self._dead_letters_of is not None:
            return  # whose manager goes on
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
        """Put a message; False where there may be no page for it.  The mutex is held.  Raises: as `put`."""
        try:
            message_id = self._append(message)
            if message_id is not None and self._serves_from_memory:
                self._offer(message_id, message)
        except FullError as error:
            if error.limit is None:
                raise
            return False  # the limit is the queue's, and no disk's
        except BaseException:
            if self._guard.failure is None:
                with self._change:  # no handler runs before it begins
                    self._switch_to_pages()
            raise
        if self._waiting:
            self._notify(1)
        return message_id is not None

    def _put_when_room(self, message: bytes, block: bool, timeout: float | None) -> None:
        """Put a message for which there may be no page yet.  Raises: queue.Full; and as `put`."""
        end = _deadline(timeout)
        while block and self._store.wait_for_room(None if end is None else max(end - time.monotonic(), 0)):
            with self._mutex:
                is_put = self._put(message)
            if is_put:
                return
        raise queue.Full

    def _get_slow(self, block: bool, timeout: float | None) -> Message:
        self._refuse()
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
                # Who puts looks at `_waiting` under the mutex; what was put before is seen here.
                self._waiting += 1
                try:
                    if not self._ready and (self._serves_from_memory or self._committing) and not self._is_closed:
                        wait_for_notice(self._mutex, RECHECK_SECONDS if wait is None else min(wait, RECHECK_SECONDS))
                finally:
                    self._waiting -= 1

    def _is_dead(self, message: Message) -> bool:
        return self._deliveries_max is not None and message.delivery_count >= self._deliveries_max

    def _record_delivery(self, message: Message) -> bool:
        """Count that a message is given; False if it was given too often, and is dead now.

        Where that raises, it comes next.
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
        """Put a message into the dead letters, and acknowledge it here, in one transaction."""
        self._commit(self.dead_letters, (message.body,), ((message.message_id, 1),))

    def _commit(self, into: Queue, messages: Iterable[bytes], acked: Iterable[tuple[int, int]]) -> None:
        """All of it, durably, or nothing.  into: where messages go.  acked: places here, and how many from there on."""
        self._refuse()
        transaction = self._manager.begin()
        with into._mutex:
            into._committing += 1
        try:
            with into._mutex:
                # They are read once it is committed, and others behind them not before.
                with self._change:
                    into._switch_to_pages()
                for message in messages:
                    into._store.append(message, transaction)
            for message_id, message_count in acked:
                self._cursor.ack(message_id, message_count, transaction)
            transaction.commit()
        except BaseException as error:
            if transaction.state is Outcome.OPEN and self._guard.failure is None:
                with self._change:  # no handler runs before it begins
                    transaction.rollback()
            if isinstance(error, FullError) and error.limit is not None:
                raise queue.Full from error
            raise
        finally:
            with into._mutex:
                into._committing -= 1
                into._mutex.notify()
            self._drain_wait.notify()


def _is_synced(mode: Mode | str) -> bool:
    mode = member(Mode, mode, "mode")
    if mode not in (Mode.SYNC, Mode.FLUSH):
        raise ValueError(f"a queue knows Mode.SYNC and Mode.FLUSH, not {mode!r}")
    return mode is Mode.SYNC


def _deadline(timeout: float | None) -> float | None:
    """When it is over, of the monotonic clock.  Raises: ValueError."""
    if timeout is None:
        return None
    if timeout < 0:
        raise ValueError(f"timeout={timeout!r}")
    return time.monotonic() + timeout
