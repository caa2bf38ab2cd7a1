"""Delivery counts of a page store: in memory, and in a file that is written before each delivery.

Invariants
- A record is written to the kernel before its message is delivered, so it survives the process.  Nothing is synced: a
  power cut may lose counts, but never a message.
- If the disk is full, or no descriptor is free, the record is not written, and the message is delivered all the same.
- When a queue is created or deleted, the file has no record of its first page, because another queue may get that page.
"""

from __future__ import annotations

import os
from contextlib import suppress

from binlog.errors import AccessError, FullError, NotFoundError
from binlog.format.pagestore.index import QueueEntry
from binlog.format.pagestore.other_files import (
    COUNT_MAX,
    DELIVERIES_FILE,
    NEW_EXTENSION,
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
from binlog.storage.native import write_gil_held

_BYTES_MAX = 1 << 20

Counts = dict[tuple[int, int], tuple[int, int]]
"""By the queue's first page and the message's key: the message's first page and its delivery count."""


class Deliveries:
    """The delivery counts of a store; the caller holds the store's guard."""

    def __init__(self, directory: Directory) -> None:
        """Raises: AccessError."""
        self._directory = directory
        self._path = directory.file_path(DELIVERIES_FILE)
        self._counts = read_counts(directory)
        self._fd = -1
        self._salt = b""
        self._end = 0

    def with_known_count(self, queue_page: int, entry: QueueEntry) -> QueueEntry:
        """Return an index entry with its delivery count, including deliveries of processes that died."""
        return with_count(self._counts, queue_page, entry)

    def record(self, queue_page: int, entry: QueueEntry) -> None:
        """Record that a message is about to be delivered once more than its entry says.

        Raises: PoisonedError; AccessError.
        """
        count = min(entry.delivery_count + 1, COUNT_MAX)
        self._counts[queue_page, entry.key] = entry.message_page, count
        if self._fd < 0 or self._end > max(_BYTES_MAX, 2 * PAGESTORE_DELIVERY.size * len(self._counts)):
            self._rewrite()
            return
        record = pack_delivery_count(
            DeliveryCount(queue_page, entry.message_page, entry.key, count), self._salt, self._end
        )
        # This call keeps the GIL: see docs/decisions/0023-threads-take-turns.md.
        failure = write_gil_held(self._fd, record, self._end)
        if not failure:
            self._end += len(record)
        elif failure not in NO_SPACE:
            raise write_failure(failure, self._path)

    def forget(self, queue_page: int, key: int) -> None:
        """Forget a message that was removed, or whose entry has the count now."""
        self._counts.pop((queue_page, key), None)

    def forget_queue(self, queue_page: int) -> None:
        """Forget a page that becomes the first page of a queue, or stops being one.

        Raises: PoisonedError; AccessError.
        """
        for each in [each for each in self._counts if each[0] == queue_page]:
            del self._counts[each]
        if self._counts or self._fd >= 0 or self._directory.has(DELIVERIES_FILE):
            self._rewrite()

    def _rewrite(self) -> None:
        """Replace the file by one with only the counts that are needed."""
        salt, offset = os.urandom(SALT_BYTES), PAGESTORE_DELIVERIES.size
        parts = [pack_deliveries_start(salt)]
        for (queue_page, key), (page, count) in self._counts.items():
            parts.append(pack_delivery_count(DeliveryCount(queue_page, page, key, count), salt, offset))
            offset += PAGESTORE_DELIVERY.size
        name = DELIVERIES_FILE + NEW_EXTENSION
        directory = self._directory
        before, self._fd = self._fd, -1
        directory.close_file(before)
        try:
            directory.remove(name)
            fd = directory.create(name)
        except (FullError, AccessError):
            return  # the disk is full, or no descriptor is free: the next delivery retries
        try:
            write_at(fd, b"".join(parts), 0, self._path)
            with own_errors(self._path, "renaming the new file"):
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
    """Return an index entry with its delivery count, including deliveries of processes that died."""
    page, count = counts.get((queue_page, entry.key), (0, 0))
    if page != entry.message_page or count <= entry.delivery_count:
        return entry
    return entry._replace(delivery_count=count)


def read_counts(directory: Directory) -> Counts:
    """Read the counts from the file.  Raises: AccessError."""
    try:
        data = directory.read(DELIVERIES_FILE)
    except NotFoundError:
        return {}
    counts: Counts = {}
    for delivery in parse_deliveries(data):
        counts[delivery.queue_page, delivery.key] = delivery.message_page, delivery.delivery_count
    return counts
