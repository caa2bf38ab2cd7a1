"""A queue in memory whose cache is full: what it has no room for is swapped out.

For messages that need not survive the process, as those that SwiftMQ does not persist.  The cache has bodies; what else
is known of a message stays in memory, some 200 bytes.
"""

from __future__ import annotations

import heapq
import threading
from itertools import count

from binlog.errors import NotFoundError
from binlog.pagestore.swap import SwapAddress, SwapStore
from binlog.pagestore.transaction import PRIORITY, Message, check_message

CACHE_MESSAGES = 500
CACHE_BYTES = 2 << 20


class _Held:
    """A message.  place: its body, or where it was swapped out to."""

    __slots__ = ("delivery_count", "expiration", "is_given", "place", "priority")

    def __init__(self, priority: int, expiration: int, place: bytes | SwapAddress) -> None:
        self.priority = priority
        self.expiration = expiration
        self.place = place
        self.delivery_count = 0
        self.is_given = False


class SwappingQueue:
    """It, for the threads of a process.  A message that was got is there until it is removed, or given back."""

    def __init__(
        self, swap: SwapStore, name: str, *, cache_messages: int = CACHE_MESSAGES, cache_bytes: int = CACHE_BYTES
    ) -> None:
        """swap: where messages go for which the cache has no room: so many, and so many bytes of bodies.

        Raises: ValueError.
        """
        if cache_messages < 0 or cache_bytes < 0:
            raise ValueError(f"no cache has room for {cache_messages} messages and {cache_bytes} bytes")
        self.name = name
        self._swap = swap
        self._messages_max = cache_messages
        self._bytes_max = cache_bytes
        self._mutex = threading.Lock()
        self._keys = count(1)
        self._held: dict[int, _Held] = {}
        self._waiting: list[tuple[int, int]] = []
        self._cached_count = self._cached_bytes = 0

    @property
    def waiting_count(self) -> int:
        """Messages that can be got."""
        with self._mutex:
            return len(self._waiting)

    @property
    def swapped_count(self) -> int:
        """Messages that are swapped out, got or not."""
        with self._mutex:
            return len(self._held) - self._cached_count

    def put(self, body: bytes, *, priority: int = PRIORITY, expiration: int = 0) -> int:
        """Put a message, as `Transaction.put`; its key.  Where the cache is full it is swapped out.

        Raises: ValueError; FullError, AccessError, PoisonedError of a swap file, and then it is not there; ClosedError;
        StateError.
        """
        check_message(priority, expiration)
        body = bytes(body)
        with self._mutex:
            fits = self._cached_count < self._messages_max and self._cached_bytes + len(body) <= self._bytes_max
            held = _Held(priority, expiration, body if fits else self._swap.add(self.name, body))
            if fits:
                self._cached_count += 1
                self._cached_bytes += len(body)
            key = next(self._keys)
            self._held[key] = held
            heapq.heappush(self._waiting, (-priority, key))
        return key

    def get(self) -> Message | None:
        """The message of the highest priority, and of these that with the lowest key; None where none waits.

        Raises: CorruptError, AccessError where it cannot be read from its swap file: nobody has it then, and the next
        call goes on behind it.  ClosedError; StateError.
        """
        with self._mutex:
            if not self._waiting:
                return None
            _, key = heapq.heappop(self._waiting)
            held = self._held[key]
            held.is_given = True
            body = held.place if isinstance(held.place, bytes) else self._swap.get(held.place).body
            return Message(self.name, key, body, held.priority, held.delivery_count, held.expiration)

    def remove(self, key: int) -> None:
        """A message that was got is not needed any more.  Raises: NotFoundError; AccessError; ClosedError."""
        with self._mutex:
            held = self._given(key)
            if isinstance(held.place, SwapAddress):
                self._swap.remove(held.place)
            else:
                self._cached_count -= 1
                self._cached_bytes -= len(held.place)
            del self._held[key]

    def give_back(self, key: int) -> None:
        """A message that was got can be got again, and tells that it was given once more.  Raises: as `remove`."""
        with self._mutex:
            held = self._given(key)
            if isinstance(held.place, SwapAddress):
                self._swap.set_delivery_count(held.place, held.delivery_count + 1)
            held.delivery_count += 1
            held.is_given = False
            heapq.heappush(self._waiting, (-held.priority, key))

    def _given(self, key: int) -> _Held:
        held = self._held.get(key)
        if held is None or not held.is_given:
            raise NotFoundError(f"nobody has a message {key} of the queue {self.name!r}")
        return held
