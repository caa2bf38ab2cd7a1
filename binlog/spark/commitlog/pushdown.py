"""What a query's filters say of where its messages lie, so that the rest of the store is never read."""

from __future__ import annotations

from typing import ClassVar

from binlog.commitlog import ColumnReader
from binlog.spark.commitlog.positions import Queue
from binlog.spark.filters import Filters

_US_IN_MS = 1000


class WantedMessages(Filters):
    """Which messages are wanted of a store."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("topic", "queue_id", "queue_offset", "store_time")

    def anything_of(self, queue: Queue) -> bool:
        """Whether anything of a queue may be wanted."""
        topic, queue_id = queue
        return self.allow("topic", topic) and self.allow("queue_id", queue_id)

    def narrow(self, store: ColumnReader, queue: Queue, indexes: range) -> range:
        """The part of a range of queue offsets that may be wanted."""
        start, stop = indexes.start, indexes.stop
        lowest, highest = self.of("queue_offset")
        if lowest is not None:
            start = max(start, lowest)
        if highest is not None:
            stop = min(stop, highest + 1)
        earliest, latest = self.of("store_time")
        if earliest is not None and start < stop:
            start = max(start, store.index_at(*queue, -(-earliest // _US_IN_MS)))
        if latest is not None and start < stop:
            stop = min(stop, store.index_at(*queue, latest // _US_IN_MS + 1))
        return range(start, max(start, stop))
