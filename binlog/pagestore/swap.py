"""Swap files: queues in memory move messages that do not fit to files, which do not outlive the process.

Nothing here is durable.  Messages that must survive belong in a page store.  A file is removed with its last message,
even if it could take more.

A SwappingQueue is for messages that SwiftMQ would not persist.  Its cache holds bodies; some 200 bytes of each message
stay in memory in any case.
"""

from __future__ import annotations

import heapq
import os
import threading
from contextlib import ExitStack
from itertools import count
from typing import NamedTuple

from binlog.errors import CorruptError, NotFoundError
from binlog.format.checksums import crc32c
from binlog.format.pagestore.other_files import SWAP_RECORD, is_swap_name, swap_name
from binlog.pagestore.transaction import PRIORITY, Message, check_message
from binlog.storage.files import read_at, write_at
from binlog.storage.handle import Handle

ROLL_BYTES = 10 << 20
_COUNT_AT = SWAP_RECORD.offset("delivery_count")


class SwapAddress(NamedTuple):
    """The address of a swapped message: file, offset, size, and CRC-32C."""

    file_number: int
    offset: int
    message_bytes: int
    crc: int


class SwappedMessage(NamedTuple):
    """A message that was swapped out.  delivery_count: as it was set."""

    body: bytes
    delivery_count: int


class _SwapFile:
    """A swap file.  live_offsets: the offsets of its messages."""

    def __init__(self, fd: int, queue: str, name: str, path: str) -> None:
        self.fd = fd
        self.queue = queue
        self.name = name
        self.path = path
        self.end = 0
        self.live_offsets: set[int] = set()


class SwapStore(Handle):
    """The swap files in a folder.  One process has it at a time; its threads may share it."""

    kind = "swap store"
    lock_name = "swap.lock"

    def __init__(self, path: str | os.PathLike[str], *, roll_bytes: int = ROLL_BYTES) -> None:
        """Open the folder, and remove all swap files of processes that died.

        roll_bytes: the size after which a queue gets another file.
        Raises: BusyError; AccessError; ValueError.
        """
        if roll_bytes < 1:
            raise ValueError(f"roll_bytes={roll_bytes!r}; at least 1 is needed")
        self._roll_bytes = roll_bytes
        self._numbers = count(1)
        self._files: dict[int, _SwapFile] = {}
        self._current: dict[str, int] = {}
        super().__init__(path)
        self._acquire()

    def _open(self, undoing: ExitStack) -> None:
        for name in filter(is_swap_name, self._directory.names()):
            self._directory.remove(name)

    def add(self, queue: str, body: bytes, *, delivery_count: int = 0) -> SwapAddress:
        """Append a message to the queue's file.

        Raises: FullError; AccessError; PoisonedError; ClosedError; StateError.
        """
        data = SWAP_RECORD.pack({"message_bytes": len(body), "delivery_count": delivery_count}) + body
        self._check_open()
        with self._guard, self._guard.change():
            self._check_open()
            number = self._current.get(queue) or self._roll(queue)
            file = self._files[number]
            offset = file.end
            file.end += len(data)  # even if the write fails, no other message is written here
            file.live_offsets.add(offset)
            try:
                write_at(file.fd, data, offset, file.path)
            except BaseException:
                file.live_offsets.discard(offset)
                raise
            if file.end >= self._roll_bytes:
                del self._current[queue]
        return SwapAddress(number, offset, len(body), crc32c(body))

    def get(self, address: SwapAddress) -> SwappedMessage:
        """Return a message, which stays.  Raises: NotFoundError; CorruptError; AccessError; ClosedError; StateError."""
        self._check_open()
        with self._guard:
            file = self._file(address)
            data = read_at(file.fd, SWAP_RECORD.size + address.message_bytes, address.offset, file.path)
        body = data[SWAP_RECORD.size :]
        if len(data) < SWAP_RECORD.size or crc32c(body) != address.crc:
            raise CorruptError(file.path, address.offset, "swap", "the message is damaged")
        return SwappedMessage(body, SWAP_RECORD.unpack(data)["delivery_count"])

    def set_delivery_count(self, address: SwapAddress, delivery_count: int) -> None:
        """Set the delivery count of a message.  Raises: as `get`, and PoisonedError."""
        data = delivery_count.to_bytes(4, "big", signed=True)
        self._check_open()
        with self._guard, self._guard.change():
            file = self._file(address)
            write_at(file.fd, data, address.offset + _COUNT_AT, file.path)

    def remove(self, address: SwapAddress) -> None:
        """Remove a message.  Raises: NotFoundError; AccessError; ClosedError; StateError."""
        self._check_open()
        with self._guard, self._guard.change():
            file = self._file(address)
            file.live_offsets.discard(address.offset)
            if not file.live_offsets:
                if self._current.get(file.queue) == address.file_number:
                    del self._current[file.queue]
                self._remove_file(address.file_number)

    def _end(self) -> None:
        """Remove all files."""
        for number in list(self._files):
            self._remove_file(number)

    def _roll(self, queue: str) -> int:
        number = next(self._numbers)
        name = swap_name(queue, number)
        self._files[number] = _SwapFile(self._directory.create(name), queue, name, self._directory.file_path(name))
        self._current[queue] = number
        return number

    def _remove_file(self, number: int) -> None:
        file = self._files.pop(number)
        self._directory.close_file(file.fd)
        self._directory.remove(file.name)

    def _file(self, address: SwapAddress) -> _SwapFile:
        self._check_open()
        file = self._files.get(address.file_number)
        if file is None or address.offset not in file.live_offsets:
            raise NotFoundError(f"no message is at offset {address.offset} of swap file {address.file_number}")
        return file


CACHE_MESSAGES = 500
CACHE_BYTES = 2 << 20


class _QueuedMessage:
    """A message of the queue.  location: its body, or its address in the swap store."""

    __slots__ = ("delivery_count", "expiration", "is_delivered", "location", "priority")

    def __init__(self, priority: int, expiration: int, location: bytes | SwapAddress) -> None:
        self.priority = priority
        self.expiration = expiration
        self.location = location
        self.delivery_count = 0
        self.is_delivered = False


class SwappingQueue:
    """A queue in memory with a limited cache.  A message that was got stays until it is removed or given back."""

    def __init__(
        self, swap: SwapStore, name: str, *, cache_messages: int = CACHE_MESSAGES, cache_bytes: int = CACHE_BYTES
    ) -> None:
        """swap: takes the messages for which the cache has no room.  cache_messages, cache_bytes: limits of the cache.

        Raises: ValueError.
        """
        if cache_messages < 0 or cache_bytes < 0:
            raise ValueError(f"cache_messages={cache_messages!r}, cache_bytes={cache_bytes!r}; neither may be negative")
        self.name = name
        self._swap = swap
        self._messages_max = cache_messages
        self._bytes_max = cache_bytes
        self._mutex = threading.Lock()
        self._keys = count(1)
        self._messages: dict[int, _QueuedMessage] = {}
        self._waiting: list[tuple[int, int]] = []
        self._cached_count = self._cached_bytes = 0

    @property
    def waiting_count(self) -> int:
        """The number of messages that can be got."""
        with self._mutex:
            return len(self._waiting)

    @property
    def swapped_count(self) -> int:
        """The number of messages in the swap store, got or not."""
        with self._mutex:
            return len(self._messages) - self._cached_count

    def put(self, body: bytes, *, priority: int = PRIORITY, expiration: int = 0) -> int:
        """Put a message, as `Transaction.put`, and return its key.  If the cache is full, it is swapped out.

        Raises: ValueError; FullError, AccessError, PoisonedError of a swap file, after which it is not in the queue;
        ClosedError; StateError.
        """
        check_message(priority, expiration)
        body = bytes(body)
        with self._mutex:
            fits = self._cached_count < self._messages_max and self._cached_bytes + len(body) <= self._bytes_max
            message = _QueuedMessage(priority, expiration, body if fits else self._swap.add(self.name, body))
            if fits:
                self._cached_count += 1
                self._cached_bytes += len(body)
            key = next(self._keys)
            self._messages[key] = message
            heapq.heappush(self._waiting, (-priority, key))
        return key

    def get(self) -> Message | None:
        """Return the message of the highest priority, and of these the one with the lowest key; None if none waits.

        Raises: CorruptError, AccessError if the message cannot be read from its swap file: it stays, and the next call
        skips it.  ClosedError; StateError.
        """
        with self._mutex:
            if not self._waiting:
                return None
            _, key = heapq.heappop(self._waiting)
            message = self._messages[key]
            message.is_delivered = True
            body = message.location if isinstance(message.location, bytes) else self._swap.get(message.location).body
            return Message(self.name, key, body, message.priority, message.delivery_count, message.expiration)

    def remove(self, key: int) -> None:
        """Remove a message that was got.  Raises: NotFoundError; AccessError; ClosedError."""
        with self._mutex:
            message = self._delivered_message(key)
            if isinstance(message.location, SwapAddress):
                self._swap.remove(message.location)
            else:
                self._cached_count -= 1
                self._cached_bytes -= len(message.location)
            del self._messages[key]

    def give_back(self, key: int) -> None:
        """Return a message that was got to the queue, with a higher delivery count.  Raises: as `remove`."""
        with self._mutex:
            message = self._delivered_message(key)
            if isinstance(message.location, SwapAddress):
                self._swap.set_delivery_count(message.location, message.delivery_count + 1)
            message.delivery_count += 1
            message.is_delivered = False
            heapq.heappush(self._waiting, (-message.priority, key))

    def _delivered_message(self, key: int) -> _QueuedMessage:
        message = self._messages.get(key)
        if message is None or not message.is_delivered:
            raise NotFoundError(f"message {key} of the queue {self.name!r} was not got")
        return message
