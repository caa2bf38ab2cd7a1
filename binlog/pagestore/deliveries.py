"""How often messages were given that nobody has removed: in memory, and in a file that is written before one is given.

Invariants
- A record is with the kernel before its message is given, so it survives the process.  Nothing is synced: a power cut
  may take counts, and never a message.
- A record for which there is no room, or no descriptor, is not written: that keeps nobody from taking messages.
- Once a queue is made or deleted the file has no record of its first page, which another queue may get.
"""

from __future__ import annotations

import os
from contextlib import suppress

from binlog.errors import AccessError, FullError, NotFoundError
from binlog.format.pagestore.index import QueueEntry
from binlog.format.pagestore.other_files import (
    COUNT_MAX,
    DELIVERIES_FILE,
    NEW_END,
    PAGESTORE_DELIVERIES,
    PAGESTORE_DELIVERY,
    SALT_BYTES,
    DeliveryCount,
    pack_deliveries_start,
    pack_delivery_count,
    parse_deliveries,
)
from binlog.storage.directory import Directory
from binlog.storage.failures import NO_SPACE, own_errors, write_failure
from binlog.storage.files import write_at
from binlog.storage.native import write_brief

_BYTES_MAX = 1 << 20

Counts = dict[tuple[int, int], tuple[int, int]]
"""Of messages, by their queue's first page and their key: the first page, and how often they were given."""


class Deliveries:
    """Those of a store.  The guard of the store is held."""

    def __init__(self, directory: Directory) -> None:
        """Raises: AccessError."""
        self._directory = directory
        self._path = directory.file_path(DELIVERIES_FILE)
        self._counts = read_counts(directory)
        self._fd = -1
        self._salt = b""
        self._end = 0

    def with_known_count(self, queue_page: int, entry: QueueEntry) -> QueueEntry:
        """The entry with how often its message was given, also by processes that died."""
        return with_count(self._counts, queue_page, entry)

    def record(self, queue_page: int, entry: QueueEntry) -> None:
        """A message is about to be given, once more than its entry says.  Raises: PoisonedError; AccessError."""
        count = min(entry.delivery_count + 1, COUNT_MAX)
        self._counts[queue_page, entry.key] = entry.message_page, count
        if self._fd < 0 or self._end > max(_BYTES_MAX, 2 * PAGESTORE_DELIVERY.size * len(self._counts)):
            self._rewrite()
            return
        record = pack_delivery_count(
            DeliveryCount(queue_page, entry.message_page, entry.key, count), self._salt, self._end
        )
        # It keeps the interpreter's lock: see docs/decisions/0023-threads-take-turns.md.
        failure = write_brief(self._fd, record, self._end)
        if not failure:
            self._end += len(record)
        elif failure not in NO_SPACE:
            raise write_failure(failure, self._path)

    def forget(self, queue_page: int, key: int) -> None:
        """A message was removed, or its entry says how often it was given."""
        self._counts.pop((queue_page, key), None)

    def forget_queue(self, queue_page: int) -> None:
        """A page begins, or ends, to be that of a queue.  Raises: PoisonedError; AccessError."""
        for each in [each for each in self._counts if each[0] == queue_page]:
            del self._counts[each]
        if self._counts or self._fd >= 0 or self._directory.has(DELIVERIES_FILE):
            self._rewrite()

    def _rewrite(self) -> None:
        """A file that has nothing but what counts, in place of the other."""
        salt, offset = os.urandom(SALT_BYTES), PAGESTORE_DELIVERIES.size
        parts = [pack_deliveries_start(salt)]
        for (queue_page, key), (page, count) in self._counts.items():
            parts.append(pack_delivery_count(DeliveryCount(queue_page, page, key, count), salt, offset))
            offset += PAGESTORE_DELIVERY.size
        name = DELIVERIES_FILE + NEW_END
        directory = self._directory
        before, self._fd = self._fd, -1
        directory.close_file(before)
        try:
            directory.remove(name)
            fd = directory.create(name)
        except (FullError, AccessError):
            return  # for want of room or of a descriptor: the next one that is given tries it again
        try:
            write_at(fd, b"".join(parts), 0, self._path)
            with own_errors(self._path, "naming the file"):
                os.rename(name, DELIVERIES_FILE, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
        except BaseException as error:
            directory.close_file(fd)
            with suppress(AccessError):
                directory.remove(name)
            if isinstance(error, (FullError, AccessError)):
                return
            raise
        self._fd, self._salt, self._end = fd, salt, offset


def with_count(counts: Counts, queue_page: int, entry: QueueEntry) -> QueueEntry:
    """The entry with how often its message was given, also by processes that died."""
    page, count = counts.get((queue_page, entry.key), (0, 0))
    if page != entry.message_page or count <= entry.delivery_count:
        return entry
    return entry._replace(delivery_count=count)


def read_counts(directory: Directory) -> Counts:
    """What the file says.  Raises: AccessError."""
    try:
        data = directory.read(DELIVERIES_FILE)
    except NotFoundError:
        return {}
    counts: Counts = {}
    for delivery in parse_deliveries(data):
        counts[delivery.queue_page, delivery.key] = delivery.message_page, delivery.delivery_count
    return counts
