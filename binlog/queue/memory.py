"""The in-memory part of a queue: messages that no consumer has got yet, and returned ones.

Invariants
- A queue serves from memory, or from pages.  While it serves from memory, all messages up to the id `_last_in_memory`
  are in `_ready` or were delivered, and there are none after it.  Otherwise the cursor still has to read the messages
  that are not in `_ready`.
- It switches to pages under the mutex.  It switches back under `_reading` and the mutex, when nothing is left to read.
- Consumers take from `_ready` without a lock: `popleft` of a deque is atomic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from binlog.errors import AccessError, ClosedError, GoneError, StateError
from binlog.paging.manager import PagingManager
from binlog.paging.memory import RECHECK_SECONDS, wait_for_notice
from binlog.storage.native import Monitor, fork_generation
from binlog.storage.redelivery import DelayQueue


class DrainWait:
    """Waits until all messages were acknowledged.  Call `notify` after anything that may end a wait."""

    def __init__(self, mutex: Monitor) -> None:
        """mutex: of the queue."""
        self._mutex = mutex
        self._change_count = 0
        self.waiting_count = 0

    def wait(self, read: Callable[[], None], is_done: Callable[[], bool]) -> None:
        """Wait until `is_done` returns true.

        read: reads the next messages, called without the mutex.  It finds messages that will never be committed, and
        the waiting thread may be the only one that reads.  is_done: called with the mutex.
        """
        with self._mutex:
            self.waiting_count += 1
        try:
            while True:
                seen = self._change_count
                read()
                with self._mutex:
                    if is_done():
                        return
                    if seen == self._change_count:  # otherwise there may be more to read
                        wait_for_notice(self._mutex, RECHECK_SECONDS)
        finally:
            with self._mutex:
                self.waiting_count -= 1

    def notify(self) -> None:
        """Wake the waiting threads."""
        with self._mutex:
            self.notify_locked()

    def notify_locked(self) -> None:
        """Wake the waiting threads; the caller holds the mutex."""
        self._change_count += 1
        self._mutex.notify()


# The memory of a message besides its bytes: the Message, its bytes object, and its id.
_OVERHEAD_BYTES = 160
# The queue serves from memory again when at most this fraction of the limit is in use.
_RESUME_RATIO = 0.75
_NUMBER = (1 << 32) - 1


class Message(NamedTuple):
    """A message of a queue.

    message_id: identifies it for `ack`; a message that was put later has a larger id.  delivery_count: how often it was
    delivered before, also by processes that died.
    """

    message_id: int
    body: bytes
    delivery_count: int = 0


class QueueMemory:
    """The base class of `Queue`; see the module."""

    def __init__(self, manager: PagingManager, address: str, memory_bytes: int) -> None:
        """Raises: ValueError; and as `PagingManager.store`."""
        if memory_bytes < 0:
            raise ValueError(f"memory_bytes={memory_bytes!r}")
        self._manager = manager
        self._guard = manager.guard
        self._change = manager.guard.change()
        self._store = manager.store(address)
        self._cursor = manager.cursor(address)
        self._generation = fork_generation()
        self._memory_bytes = self._room = memory_bytes
        self._ready: deque[Message] = deque()
        self._delayed: DelayQueue[Message] = DelayQueue()
        self._mutex = Monitor()
        self._reading = Monitor()
        self._drain_wait = DrainWait(self._mutex)
        self._waiting = 0
        self._committing = 0
        self._serves_from_memory = not self._store.page_count
        self._last_in_memory: int | None = None
        self._is_closed = False

    def _offer(self, message_id: int, body: bytes) -> None:
        """Add a message to memory if there is room.  The caller holds the mutex, and the queue serves from memory."""
        self._room -= len(body) + _OVERHEAD_BYTES
        if self._room < 0 and not self._has_memory_again():
            self._cursor.seek(message_id)
            self._serves_from_memory = False
            return
        message = Message(message_id, body if type(body) is bytes else bytes(memoryview(body)))
        self._last_in_memory = message_id
        self._ready.append(message)  # no signal handler runs before it is in `_ready`

    def _has_memory_again(self) -> bool:
        """Whether consumers have taken enough messages out of memory.

        This is measured only after the remaining room was used up, so consumers need not count.
        """
        used = sum(len(message.body) + _OVERHEAD_BYTES for message in self._ready.copy())
        self._room = self._memory_bytes - used
        return used <= self._memory_bytes * _RESUME_RATIO and self._room > 0

    def _switch_to_pages(self) -> None:
        """Read the messages after the last one in memory from pages.  The caller holds the mutex."""
        if not self._serves_from_memory:
            return
        if self._last_in_memory is not None:
            try:
                self._cursor.seek(self._last_in_memory + 1)
            except GoneError:
                following = self._store.following(self._last_in_memory >> 32)
                if following is not None:
                    self._cursor.seek(following.page_id << 32)
        self._serves_from_memory = False

    def _requeue_due(self) -> None:
        """Put returned messages whose delay is over at the front."""
        with self._change, self._mutex:
            due = self._delayed.take_due()
            self._ready.extendleft(reversed(due))
            self._notify(len(due))

    def _notify(self, count: int) -> None:
        """Wake this many consumers, and all threads in `join`.  The caller holds the mutex."""
        self._mutex.notify(count + self._drain_wait.waiting_count)

    def _refill(self) -> None:
        """Read more messages from pages, unless the queue serves from memory."""
        try:
            self._read_pages()
        except AccessError:
            self._check()  # another thread has closed the queue and its files
            raise

    def _read_pages(self) -> None:
        with self._reading, self._change:
            if self._ready or self._serves_from_memory or self._is_closed:
                return
            run = self._cursor.read()
            if run is None:
                with self._mutex:
                    run = self._cursor.read()  # no message is added meanwhile
                    if run is None:
                        if not self._committing:
                            self._room = self._memory_bytes
                            self._last_in_memory = None
                            self._serves_from_memory = True
                        return
            counts_before = self._cursor.deliveries.counts(run.message_id >> 32)
            if counts_before:
                first = run.message_id & _NUMBER
                counts = [counts_before.get(number, 0) for number in range(first, first + len(run.messages))]
                self._ready.extend(map(Message, count(run.message_id), run.messages, counts))
            else:
                self._ready.extend(map(Message, count(run.message_id), run.messages))
            self._forget_if_closed()
        if self._waiting:
            with self._mutex:
                self._notify(len(run.messages))

    def _forget_if_closed(self) -> None:
        if self._is_closed:
            self._ready.clear()

    def _check_open(self) -> None:
        """Check before taking a mutex, which a forked child may find locked forever.  Raises: StateError."""
        if fork_generation() != self._generation:
            raise StateError(f"the queue {self._manager.path} belongs to the parent process; open it in this one")
        self._check()

    def _check(self) -> None:
        if self._is_closed:
            raise ClosedError(f"the queue {self._manager.path} is closed")
        self._guard.check()
