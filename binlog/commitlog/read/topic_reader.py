"""Reading some queues of one topic together, in the order of the commit log, and following them."""

from __future__ import annotations

import heapq
from collections import deque

from binlog.commitlog.read.store_reader import StoreReader
from binlog.format.commitlog.message import StoredMessage

_AT_ONCE = 64


class TopicReader:
    """The messages of `topic`, of all its queues, those that come later too, or of one.

    It begins with the first message that is there, unless one of the `start` methods says otherwise.
    tag: only the messages that have it.
    """

    def __init__(self, reader: StoreReader, topic: str, queue_id: int | None = None, *, tag: str | None = None) -> None:
        self._reader = reader
        self._topic = topic
        self._queue_id = queue_id
        self._tag = tag
        self._end: int | None = None
        self._next: dict[int, int] = {}
        # What was read of a queue and not given yet, because other queues may have messages that lie before.
        self._ahead: dict[int, deque[StoredMessage]] = {}

    def queue_ids(self) -> list[int]:
        """The queues that are there now."""
        if self._queue_id is not None:
            return [self._queue_id]
        return [queue_id for _, queue_id in self._reader.queues(self._topic)]

    def start_at_offset(self, offset: int) -> None:
        """Begin with the first message that lies at an offset of the commit log, or behind it."""
        for queue_id in self.queue_ids():
            self._next[queue_id] = self._reader.find_by_offset(self._topic, queue_id, offset)

    def start_at_index(self, index: int) -> None:
        """Begin with a queue offset, the same for each queue."""
        self._next = dict.fromkeys(self.queue_ids(), index)

    def start_at_time(self, store_ms: int) -> None:
        """Begin with the first message that was stored at a time or after it."""
        for queue_id in self.queue_ids():
            index = self._reader.find_by_time(self._topic, queue_id, store_ms)
            found, after = self._reader.pull(self._topic, queue_id, index, 1)
            early = bool(found) and found[0].store_ms < store_ms  # the last one, where all are
            self._next[queue_id] = after if early else index

    def start_at_last(self, count: int) -> None:
        """Begin with the last messages that are there now, so many together."""
        last: list[tuple[int, int, int]] = []
        for queue_id in self.queue_ids():
            indexes = self._reader.queue_range(self._topic, queue_id)
            self._next[queue_id] = indexes.stop
            offsets = self._reader.log_offsets(self._topic, queue_id, indexes[max(len(indexes) - count, 0) :])
            last += [(offset, queue_id, index) for index, offset in offsets]
        for _, queue_id, index in heapq.nlargest(count, last):
            self._next[queue_id] = min(self._next[queue_id], index)

    def read_batch(self) -> list[StoredMessage]:
        """Some of the messages that have come, none once there are no more for now."""
        # Queues are looked at one after the other: what comes behind this place meanwhile is for the next round.
        _, self._end = self._reader.log_range()
        batch: list[StoredMessage] = []
        heads = [(message.offset, queue_id) for queue_id in self.queue_ids() if (message := self._head(queue_id))]
        heapq.heapify(heads)
        while heads and len(batch) < _AT_ONCE:
            offset, queue_id = heads[0]
            if self._end is not None and offset >= self._end:
                break
            batch.append(self._ahead[queue_id].popleft())
            message = self._head(queue_id)
            if message is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (message.offset, queue_id))
        return batch

    def _head(self, queue_id: int) -> StoredMessage | None:
        """The next message of a queue, which stays there."""
        ahead = self._ahead.setdefault(queue_id, deque())
        while not ahead:
            index = self._next.get(queue_id, 0)
            found, after = self._reader.pull(self._topic, queue_id, index, _AT_ONCE, tag=self._tag)
            if after == index:
                return None
            self._next[queue_id] = after
            ahead.extend(found)
        return ahead[0]

    def wait(self, timeout: float) -> None:
        """Wait until something may have come, for `timeout` seconds at most, now and then for less."""
        _, end = self._reader.log_range()
        if end is None or end == self._end:  # else it came while the last round went on
            self._reader.wait(timeout)
