"""What a queue has in memory: messages that nobody has got yet, and those that were given back.

Invariants
- The queue is direct, or not.  While it is, all messages up to the place `_last` are in `_ready` or were given, and
  none is behind it; while it is not, those that are not in `_ready` are yet to be read by the cursor.
- It ceases to be direct under the mutex; it becomes so under `_reading` and the mutex, when nothing is left to read.
- `_ready` is taken from without a lock: a deque's `popleft` is one step.

Waiting until all messages of a queue were acknowledged.
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
from binlog.storage.redelivery import Delayed


class DrainWait:
    """Those who wait.  `changed` is to be called behind whatever may end a wait."""

    def __init__(self, mutex: Monitor) -> None:
        """mutex: the queue's."""
        self._mutex = mutex
        self._change_count = 0
        self.waiting_count = 0

    def wait(self, read: Callable[[], None], is_done: Callable[[], bool]) -> None:
        """Wait until it is done.

        read: reads what comes next, without the mutex: so it is found which messages are nobody's, and there may be no
        one else who reads.  is_done: asked with the mutex.
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
                    if seen == self._change_count:  # else there may be more to be read
                        wait_for_notice(self._mutex, RECHECK_SECONDS)
        finally:
            with self._mutex:
                self.waiting_count -= 1

    def notify(self) -> None:
        """Have them look again."""
        with self._mutex:
            self.notify_locked()

    def notify_locked(self) -> None:
        """Likewise; the mutex is held."""
        self._change_count += 1
        self._mutex.notify()


# What a message takes in memory besides its bytes: its object, their object, its place.
_OVERHEAD_BYTES = 160
# Messages go to memory again once no more than this part of the limit is used.
_RESUME_RATIO = 0.75
_NUMBER = (1 << 32) - 1


class Message(NamedTuple):
    """A message of a queue.

    place: by it it is acknowledged; the later one was put has the larger one.  delivery_count: so often it was given
    before, also by processes that died.
    """

    message_id: int
    body: bytes
    delivery_count: int = 0


class QueueMemory:
    """See the module; `Queue` is what is used of it."""

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
        self._delayed: Delayed[Message] = Delayed()
        self._mutex = Monitor()
        self._reading = Monitor()
        self._drain_wait = DrainWait(self._mutex)
        self._waiting = 0
        self._committing = 0
        self._serves_from_memory = not self._store.page_count
        self._last_in_memory: int | None = None
        self._is_closed = False

    def _offer(self, message_id: int, body: bytes) -> None:
        """Have a message be given from memory, where there is room for it.  The mutex is held, and it is direct."""
        self._room -= len(body) + _OVERHEAD_BYTES
        if self._room < 0 and not self._has_memory_again():
            self._cursor.seek(message_id)
            self._serves_from_memory = False
            return
        message = Message(message_id, body if type(body) is bytes else bytes(memoryview(body)))
        self._last_in_memory = message_id
        self._ready.append(message)  # no handler runs before it is there

    def _has_memory_again(self) -> bool:
        """Whether others have taken enough out of memory meanwhile.

        That is asked only when so much was put as there was room for: so it need not be counted who takes what.
        """
        used = sum(len(message.body) + _OVERHEAD_BYTES for message in self._ready.copy())
        self._room = self._memory_bytes - used
        return used <= self._memory_bytes * _RESUME_RATIO and self._room > 0

    def _switch_to_pages(self) -> None:
        """What is behind the last message that is in memory is to be read from pages.  The mutex is held."""
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
        """Have those come next that were given back, and whose delay is over."""
        with self._change, self._mutex:
            due = self._delayed.take_due()
            self._ready.extendleft(reversed(due))
            self._notify(len(due))

    def _notify(self, count: int) -> None:
        """Wake so many of those who wait for messages; those who join wait too, and look again.  The mutex is held."""
        self._mutex.notify(count + self._drain_wait.waiting_count)

    def _refill(self) -> None:
        """Read more messages from pages, where they do not come from memory."""
        try:
            self._read_pages()
        except AccessError:
            self._check()  # who closed it meanwhile closed what is read
            raise

    def _read_pages(self) -> None:
        with self._reading, self._change:
            if self._ready or self._serves_from_memory or self._is_closed:
                return
            run = self._cursor.read()
            if run is None:
                with self._mutex:
                    run = self._cursor.read()  # nobody adds any meanwhile
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

    def _refuse(self) -> None:
        """Before a mutex is taken, which somebody may hold for ever in a forked child.  Raises: StateError."""
        if fork_generation() != self._generation:
            raise StateError(f"the queue {self._manager.path} is the parent process's")
        self._check()

    def _check(self) -> None:
        if self._is_closed:
            raise ClosedError(f"the queue {self._manager.path} was closed")
        self._guard.check()
