"""Divide a read of a commit log into tasks: queues, and parts of large ones.

The filters of a query bound the ranges, so that the rest of the store is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from binlog import Start
from binlog.commitlog import ColumnReader
from binlog.spark.commitlog.options import Position, Queue, StoreReadOptions, resolve
from binlog.spark.filters import Filters
from binlog.spark.tasks import OVERSHOOT, Task, pack_tasks, target_bytes

_US_IN_MS = 1000


class WantedMessages(Filters):
    """The bounds of a query's filters on a commit log."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("topic", "queue_id", "queue_offset", "store_time")

    def may_match(self, queue: Queue) -> bool:
        """Return whether any message of a queue may be wanted."""
        topic, queue_id = queue
        return self.allows("topic", topic) and self.allows("queue_id", queue_id)

    def narrow_range(self, store: ColumnReader, queue: Queue, indexes: range) -> range:
        """Return the part of a range of queue offsets that may be wanted."""
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


@dataclass(frozen=True)
class QueueRange:
    """The messages of one queue from queue offset `start` up to `stop`.

    message_bytes: the approximate size of each.
    """

    topic: str
    queue_id: int
    start: int
    stop: int
    message_bytes: int

    @property
    def count(self) -> int:
        """The number of messages."""
        return self.stop - self.start

    @property
    def size(self) -> int:
        """Their approximate size in bytes."""
        return self.count * self.message_bytes


def chosen_queues(store: ColumnReader, options: StoreReadOptions) -> dict[Queue, range]:
    """Return the queues to read, with their current queue offsets."""
    queues = store.queues_of(options.topics)
    return {queue: store.queue_range(*queue) for queue in queues if options.queue_id in (None, queue[1])}


def plan(options: StoreReadOptions, wanted: WantedMessages) -> list[Task[QueueRange]]:
    """Return the tasks for the store's current contents.  Raises: ValueError, GoneError, AccessError, CorruptError."""
    with ColumnReader(options.path) as store:
        existing = chosen_queues(store, options)
        _check_topics(store, options, existing)
        starts, ends = (
            resolve_all(position, default, store, existing, fail_on_data_loss=options.fail_on_data_loss)
            for position, default in ((options.start, Start.BEGINNING), (options.end, Start.END))
        )
        ranges = [
            part
            for queue in existing
            if wanted.may_match(queue)
            and (
                part := queue_range(store, queue, wanted.narrow_range(store, queue, range(starts[queue], ends[queue])))
            )
        ]
    return divide(ranges, options)


def _check_topics(store: ColumnReader, options: StoreReadOptions, existing: Mapping[Queue, range]) -> None:
    """Raise ValueError for a topic or queue that does not exist.  (A stream waits for it instead.)"""
    missing = (options.topics or frozenset()) - {topic for topic, _ in existing}
    if missing:
        names = ", ".join(map(repr, sorted(missing)))
        queue = "" if options.queue_id is None else f", or it has no queue {options.queue_id}"
        raise ValueError(f"binlog: {store.path} has no topic {names}{queue}")


def resolve_all(
    position: Position, default: Start, store: ColumnReader, existing: Mapping[Queue, range], *, fail_on_data_loss: bool
) -> dict[Queue, int]:
    """Return the queue offset of a position in each queue.  default: for queues that the position does not name.

    Raises: ValueError for an unknown queue, or a position after the end of one; GoneError.
    """
    if isinstance(position, Mapping):
        for topic, queue_id in position.keys() - existing.keys():
            raise ValueError(f"binlog: {store.path}: there is a position for {topic}/{queue_id}, which does not exist")
    return {
        queue: resolve(
            default if isinstance(position, Mapping) and queue not in position else position,
            store,
            queue,
            indexes,
            fail_on_data_loss=fail_on_data_loss,
        )
        for queue, indexes in existing.items()
    }


def queue_range(store: ColumnReader, queue: Queue, indexes: range) -> QueueRange | None:
    """Return these messages of a queue, or None if there are none."""
    if not indexes:
        return None
    return QueueRange(*queue, indexes.start, indexes.stop, store.message_bytes(*queue, indexes))


def divide(ranges: Iterable[QueueRange], options: StoreReadOptions) -> list[Task[QueueRange]]:
    """Return tasks of about the size asked for."""
    whole = list(ranges)
    target = target_bytes(whole, options)
    return pack_tasks(_pieces(whole, target), target)


def _pieces(ranges: Iterable[QueueRange], target: int) -> Iterator[QueueRange]:
    for part in ranges:
        if part.size <= target * OVERSHOOT:
            yield part
            continue
        count = max(target // part.message_bytes, 1)
        for start in range(part.start, part.stop, count):
            yield replace(part, start=start, stop=min(start + count, part.stop))
