"""A queue with a limit on its memory that survives the process; what does not fit in memory is read from pages.

Every message is put into a page at once, so that it survives the process, and never written again.  While there is
room in memory it is given from there; what is beyond is read from its page, many messages at a time.

Invariants
- The queue is direct, or not.  While it is, all messages up to the place `_last` are in `_ready` or were given, and
  none is behind it; while it is not, those that are not in `_ready` are yet to be read by the cursor.
- It ceases to be direct under the mutex; it becomes so under `_reading` and the mutex, when nothing is left to read.
- `_ready` is taken from without a lock: a deque's `popleft` is one step.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from types import TracebackType
from typing import NamedTuple, Self

from binlog.errors import AccessError, BinlogError, ClosedError, FullError, GoneError, PoisonedError, StateError
from binlog.format.problem import Problem
from binlog.format.values import byte_count, member
from binlog.paging.joining import Joining
from binlog.paging.manager import PagingManager
from binlog.paging.page_transaction import Outcome, PageTransaction
from binlog.paging.queue_transaction import QueueTransaction
from binlog.paging.shared_sync import SharedSync
from binlog.storage.group_commit import Mode
from binlog.storage.native import fork_generation

ADDRESS = "queue"
MEMORY_BYTES = 16 << 20
# What a message takes in memory besides its bytes: its object, their object, its place.
_AROUND_BYTES = 160
# Messages go to memory again once no more than this part of the limit is used.
_RESUME_RATIO = 0.75


class Message(NamedTuple):
    """A message of a queue.  place: by it it is acknowledged; the later one was put has the larger one."""

    place: int
    body: bytes


class Queue:
    """A queue in a folder, for this process, whose threads may share it; `binlog.open_queue` opens one.

    What was put and not acknowledged is given again, in its order, after the queue was opened anew.  It is a context
    manager.  Where nothing is said of it, methods are as those of `queue.Queue`; `ack` stands for its `task_done`.

    mode: how far a message, or an acknowledgement, is when `put` or `ack` has returned.  Mode.SYNC: on the disk, by a
    sync that all who wait share.  Mode.FLUSH: it survives the process, and the machine's failure only once its page
    was synced: pages are when they are full, acknowledgements with `sync` or `close`.
    """

    def __init__(
        self,
        manager: PagingManager,
        *,
        mode: Mode | str = Mode.SYNC,
        memory_bytes: int = MEMORY_BYTES,
        close: Callable[[], None] | None = None,
    ) -> None:
        """manager: started; the queue stops it.  memory_bytes: of messages that nobody has got yet, about.

        close: called when the manager was stopped.  Raises: ValueError; and as `PagingManager.store`.
        """
        memory_bytes = byte_count(memory_bytes, "memory_bytes")
        if memory_bytes < 0:
            raise ValueError(f"memory_bytes={memory_bytes!r}")
        self._is_synced = _is_synced(mode)
        self._manager = manager
        self._close = close
        self._store = manager.store(ADDRESS)
        self._cursor = manager.cursor(ADDRESS)
        self._append = self._store.append
        self._generation = fork_generation()
        self._memory_bytes = self._room = memory_bytes
        self._ready: deque[Message] = deque()
        self._mutex = threading.Lock()
        self._reading = threading.Lock()
        self._arrived = threading.Condition(self._mutex)
        self._joining = Joining(self._mutex)
        self._waiting = 0
        self._committing = 0
        self._is_direct = not self._store.page_count
        self._last: int | None = None
        self._is_closed = False
        self._failure: BinlogError | None = None
        self._put_sync = SharedSync(self._store.sync)
        self._ack_sync = SharedSync(self._cursor.sync)
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
        if fork_generation() != self._generation or self._failure is not None:
            self._refuse()
        try:
            with self._mutex:
                is_put = self._put(message)
            if not is_put:
                self._put_later(message, block, timeout)
            if is_synced:
                self._put_sync.wait()
        except PoisonedError as error:
            self._fail(error)
            raise

    def put_nowait(self, message: bytes, *, mode: Mode | str | None = None) -> None:
        """As `put`, which does not wait for a page to go."""
        self.put(message, block=False, mode=mode)

    def get(self, block: bool = True, timeout: float | None = None) -> Message:
        """The message that comes next; nobody else gets it before the queue is opened anew.  Nothing is written.

        Raises: queue.Empty where there is none, and `timeout` seconds were too few; ClosedError; PoisonedError;
        AccessError; StateError in a forked child; ValueError.
        """
        if fork_generation() != self._generation:
            self._refuse()
        try:
            return self._ready.popleft()
        except IndexError:
            return self._get_slowly(block, timeout)

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
        if fork_generation() != self._generation or self._failure is not None:
            self._refuse()
        try:
            self._cursor.ack(message.place)
            if is_synced:
                self._ack_sync.wait()
        except PoisonedError as error:
            self._fail(error)
            raise
        finally:
            if self._joining.waiting_count:
                self._joining.changed()

    def nack(self, message: Message) -> None:
        """Give a message back that was got and not acknowledged: it comes next.

        Raises: StateError; ClosedError; PoisonedError.
        """
        self._refuse()
        with self._mutex:
            self._check()
            self._ready.appendleft(message)
            self._arrived.notify()

    def transaction(self) -> QueueTransaction:
        """A transaction: of what is put and acknowledged with it all is there once it is committed, or nothing."""
        return QueueTransaction(self._commit)

    def qsize(self) -> int:
        """How many messages nobody has got yet, about: after a crash also some that were never committed may count."""
        self._refuse()
        return len(self._ready) + (0 if self._is_direct else self._cursor.unread_count())

    def empty(self) -> bool:
        """Whether `get_nowait` would now find none.  Blocks: for reading, where none is in memory."""
        self._refuse()
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
        return self._cursor.left_count()

    def join(self) -> None:
        """Wait until all messages were acknowledged, but those of transactions that were not committed.

        Blocks: also for reading what comes behind the messages that were got.
        Raises: ClosedError; PoisonedError; AccessError; StateError.
        """
        self._refuse()
        self._joining.wait(self._refill, self._is_all_acknowledged)

    def _is_all_acknowledged(self) -> bool:
        self._check()
        return self._cursor.left_count() == 0

    def sync(self) -> None:
        """Have all that was put and acknowledged be durable.  Raises: PoisonedError; ClosedError; StateError."""
        self._refuse()
        try:
            self._store.sync()
            self._cursor.sync()
        except PoisonedError as error:
            self._fail(error)
            raise

    def close(self) -> None:
        """Have all be durable, and end; a second call does nothing.

        Raises: PoisonedError, also where something failed before that made it refuse all; it is closed then too.
        """
        if fork_generation() != self._generation:
            return
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
            self._ready.clear()
            self._arrived.notify_all()
            self._joining.changed_held()
        try:
            self._manager.stop()
        finally:
            if self._close is not None:
                self._close()
        self._check_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BinlogError:
            if error is None:
                raise

    def _put(self, message: bytes) -> bool:
        """Put a message; False where there may be no page for it.  The mutex is held.  Raises: as `put`."""
        try:
            place = self._append(message)
            if place is not None and self._is_direct:
                self._offer(place, message)
        except FullError as error:
            if error.limit is None:
                raise
            return False  # the limit is the queue's, and no disk's
        except BaseException:
            self._read_from_last()
            raise
        if self._waiting:
            self._arrived.notify()
        return place is not None

    def _offer(self, place: int, body: bytes) -> None:
        """Have a message be given from memory, where there is room for it.  The mutex is held, and it is direct."""
        self._room -= len(body) + _AROUND_BYTES
        if self._room < 0 and not self._measure():
            self._cursor.seek(place)
            self._is_direct = False
            return
        self._last = place
        self._ready.append(Message(place, body if type(body) is bytes else bytes(memoryview(body))))

    def _measure(self) -> bool:
        """Whether others have taken enough out of memory meanwhile.

        That is asked only when so much was put as there was room for: so it need not be counted who takes what.
        """
        used = sum(len(message.body) + _AROUND_BYTES for message in self._ready.copy())
        self._room = self._memory_bytes - used
        return used <= self._memory_bytes * _RESUME_RATIO and self._room > 0

    def _read_from_last(self) -> None:
        """Something was raised: what is behind the last message that is in memory may be in a page.  Mutex held."""
        if not self._is_direct:
            return
        if self._last is not None:
            try:
                self._cursor.seek(self._last + 1)
            except GoneError:
                following = self._store.following(self._last >> 32)
                if following is not None:
                    self._cursor.seek(following.page_id << 32)
        self._is_direct = False

    def _put_later(self, message: bytes, block: bool, timeout: float | None) -> None:
        """Put a message for which there may be no page yet.  Raises: queue.Full; and as `put`."""
        end = _end_of(timeout)
        while block and self._store.wait_for_room(None if end is None else max(end - time.monotonic(), 0)):
            with self._mutex:
                if self._put(message):
                    return
        raise queue.Full

    def _get_slowly(self, block: bool, timeout: float | None) -> Message:
        self._refuse()
        end = _end_of(timeout if block else None)
        while True:
            self._refill()
            try:
                return self._ready.popleft()
            except IndexError:
                self._check()
            wait = None if end is None else end - time.monotonic()
            if not block or (wait is not None and wait <= 0):
                raise queue.Empty
            with self._mutex:
                # Who puts looks at `_waiting` under the mutex; what was put before is seen here.
                self._waiting += 1
                try:
                    if not self._ready and (self._is_direct or self._committing) and not self._is_closed:
                        self._arrived.wait(wait)
                finally:
                    self._waiting -= 1

    def _refill(self) -> None:
        """Read more messages from pages, where they do not come from memory."""
        try:
            self._read_pages()
        except PoisonedError as error:
            self._fail(error)
            raise
        except AccessError:
            self._check()  # who closed it meanwhile closed what is read
            raise

    def _read_pages(self) -> None:
        with self._reading:
            if self._ready or self._is_direct or self._is_closed:
                return
            run = self._cursor.read()
            if run is None:
                with self._mutex:
                    run = self._cursor.read()  # nobody adds any meanwhile
                    if run is None:
                        if not self._committing:
                            self._room = self._memory_bytes
                            self._last = None
                            self._is_direct = True
                        return
            self._ready.extend(map(Message, count(run.place), run.messages))
            if self._is_closed or self._failure is not None:
                self._ready.clear()
        if self._waiting:
            with self._mutex:
                self._arrived.notify(len(run.messages))

    def _commit(self, messages: Iterable[bytes], acked: Iterable[tuple[int, int]]) -> None:
        """All of it, durably, or nothing.  acked: places, and how many messages from there on."""
        self._refuse()
        transaction = self._begin()
        with self._mutex:
            self._committing += 1
        try:
            with self._mutex:
                # They are read once it is committed, and others behind them not before.
                self._read_from_last()
                for message in messages:
                    self._store.append(message, transaction)
            for place, message_count in acked:
                self._cursor.ack(place, message_count, transaction)
            transaction.commit()
        except BaseException as error:
            try:
                transaction.rollback()
            except BinlogError as failed:
                # What was refused as others had closed the queue was not done.
                if transaction.state is Outcome.OPEN and not isinstance(error, ClosedError):
                    self._fail(failed)
                    raise PoisonedError("what became of a transaction is not known: open the queue anew") from error
            if isinstance(error, PoisonedError):
                self._fail(error)
            if isinstance(error, FullError) and error.limit is not None:
                raise queue.Full from error
            raise
        finally:
            with self._mutex:
                self._committing -= 1
                self._arrived.notify_all()
                self._joining.changed_held()

    def _begin(self) -> PageTransaction:
        try:
            return self._manager.begin()
        except PoisonedError as error:
            self._fail(error)
            raise

    def _fail(self, error: BinlogError) -> None:
        """Have all that follows be refused: what the disk has is not known."""
        with self._mutex:
            self._failure = self._failure or error
            self._ready.clear()
            self._arrived.notify_all()
            self._joining.changed_held()

    def _refuse(self) -> None:
        """Before a mutex is taken, which somebody may hold for ever in a forked child.  Raises: StateError."""
        if fork_generation() != self._generation:
            raise StateError(f"the queue {self._manager.path} is the parent process's")
        self._check()

    def _check(self) -> None:
        if self._is_closed:
            raise ClosedError(f"the queue {self._manager.path} was closed")
        self._check_failure()

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise PoisonedError(f"the queue {self._manager.path} failed: {self._failure}") from self._failure


def _is_synced(mode: Mode | str) -> bool:
    mode = member(Mode, mode, "mode")
    if mode not in (Mode.SYNC, Mode.FLUSH):
        raise ValueError(f"a queue knows Mode.SYNC and Mode.FLUSH, not {mode!r}")
    return mode is Mode.SYNC


def _end_of(timeout: float | None) -> float | None:
    """When it is over, of the monotonic clock.  Raises: ValueError."""
    if timeout is None:
        return None
    if timeout < 0:
        raise ValueError(f"timeout={timeout!r}")
    return time.monotonic() + timeout
