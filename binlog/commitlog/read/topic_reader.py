"""A reader that merges the queues of one topic in the order of the commit log, and follows them."""

from __future__ import annotations

import heapq
from collections import deque

from binlog.commitlog.read.store_reader import StoreReader
from binlog.format.commitlog.message import StoredMessage

_AT_ONCE = 64


class TopicReader:
    """A cursor over the messages of `topic`: of all its queues, including later ones, or of one queue.

    It starts with the first message, unless one of the `start` methods was called.
    tag: only messages that have it.
    """

    def __init__(self, reader: StoreReader, topic: str, queue_id: int | None = None, *, tag: str | None = None) -> None:
        self._reader = reader
        self._topic = topic
        self._queue_id = queue_id
        self._tag = tag
        self._end: int | None = None
        self._next: dict[int, int] = {}
        # Messages that were read from a queue, but are later in the log than the next messages of other queues.
        self._waiting: dict[int, deque[StoredMessage]] = {}

    def queue_ids(self) -> list[int]:
        """Return the ids of the present queues."""
        if self._queue_id is not None:
            return [self._queue_id]
        return [queue_id for _, queue_id in self._reader.queues(self._topic)]

    def start_at_offset(self, offset: int) -> None:
        """Start with the first message at or after an offset of the commit log."""
        for queue_id in self.queue_ids():
            self._next[queue_id] = self._reader.find_by_offset(self._topic, queue_id, offset)

    def start_at_index(self, index: int) -> None:
        """Start with a queue offset, the same in each queue."""
        self._next = dict.fromkeys(self.queue_ids(), index)

    def start_at_time(self, store_ms: int) -> None:
        """Start with the first message that was stored at a time or later."""
        for queue_id in self.queue_ids():
            index = self._reader.find_by_time(self._topic, queue_id, store_ms)
            found, after = self._reader.pull(self._topic, queue_id, index, 1)
            early = bool(found) and found[0].store_ms < store_ms  # find_by_time found none and returned the last one
            self._next[queue_id] = after if early else index

    def start_at_last(self, count: int) -> None:
        """Start with the last `count` messages of all queues together."""
        last: list[tuple[int, int, int]] = []
        for queue_id in self.queue_ids():
            indexes = self._reader.queue_range(self._topic, queue_id)
            self._next[queue_id] = indexes.stop
            offsets = self._reader.log_offsets(self._topic, queue_id, indexes[max(len(indexes) - count, 0) :])
            last += [(offset, queue_id, index) for index, offset in offsets]
        for _, queue_id, index in heapq.nlargest(count, last):
            self._next[queue_id] = min(self._next[queue_id], index)

    def read_batch(self) -> list[StoredMessage]:
        """Return some of the next messages; an empty list if there is no new one."""
        # Queues are read one by one: messages appended after this end are left for the next batch.
        _, self._end = self._reader.log_range()
        batch: list[StoredMessage] = []
        heads = [(message.offset, queue_id) for queue_id in self.queue_ids() if (message := self._head(queue_id))]
        heapq.heapify(heads)
        while heads and len(batch) < _AT_ONCE:
            offset, queue_id = heads[0]
            if self._end is not None and offset >= self._end:
                break
            batch.append(self._waiting[queue_id].popleft())
            message = self._head(queue_id)
            if message is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (message.offset, queue_id))
        return batch

    def _head(self, queue_id: int) -> StoredMessage | None:
        """Return the next message of a queue, without consuming it."""
        ahead = self._waiting.setdefault(queue_id, deque())
        while not ahead:
            index = self._next.get(queue_id, 0)
            found, after = self._reader.pull(self._topic, queue_id, index, _AT_ONCE, tag=self._tag)
            if after == index:
                return None
            self._next[queue_id] = after
            ahead.extend(found)
        return ahead[0]

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until there may be new messages; may return earlier without any."""
        _, end = self._reader.log_range()
        if end is None or end == self._end:  # otherwise messages arrived during the last batch
            self._reader.wait(timeout)
