"""Planning of a read: divides queues into tasks, and skips messages that the query's filters exclude."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from binlog import Start
from binlog.commitlog import ColumnReader
from binlog.spark.commitlog.options import Position, Queue, StoreReadOptions, resolve
from binlog.spark.filters import Filters
from binlog.spark.tasks import OVER, Task, put_together, target_bytes

_US_IN_MS = 1000


class WantedMessages(Filters):
    """The messages that a query's filters allow."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("topic", "queue_id", "queue_offset", "store_time")

    def may_have(self, queue: Queue) -> bool:
        """Return whether a queue may have wanted messages."""
        topic, queue_id = queue
        return self.allow("topic", topic) and self.allow("queue_id", queue_id)

    def narrow_range(self, store: ColumnReader, queue: Queue, indexes: range) -> range:
        """Return the part of a range of queue offsets that may have wanted messages."""
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

    message_bytes: the estimated size of each.
    """

    topic: str
    queue_id: int
    start: int
    stop: int
    message_bytes: int

    @property
    def count(self) -> int:
        """Return the number of messages."""
        return self.stop - self.start

    @property
    def size(self) -> int:
        """Return the estimated size of the messages."""
        return self.count * self.message_bytes


def chosen_queues(store: ColumnReader, options: StoreReadOptions) -> dict[Queue, range]:
    """Return the queues to read, with their present queue offsets."""
    queues = store.queues_of(options.topics)
    return {queue: store.queue_range(*queue) for queue in queues if options.queue_id in (None, queue[1])}


def plan(options: StoreReadOptions, wanted: WantedMessages) -> list[Task[QueueRange]]:
    """Return the tasks for the present messages.  Raises: ValueError, GoneError, AccessError, CorruptError."""
    with ColumnReader(options.path) as store:
        present = chosen_queues(store, options)
        _check_topics(store, options, present)
        starts, ends = (
            resolve_all(position, default, store, present, fail_on_data_loss=options.fail_on_data_loss)
            for position, default in ((options.start, Start.BEGINNING), (options.end, Start.END))
        )
        ranges = [
            part
            for queue in present
            if wanted.may_have(queue)
            and (
                part := queue_range(store, queue, wanted.narrow_range(store, queue, range(starts[queue], ends[queue])))
            )
        ]
    return divide(ranges, options)


def _check_topics(store: ColumnReader, options: StoreReadOptions, present: Mapping[Queue, range]) -> None:
    """Raise ValueError for a missing topic or queue that an option names.  A stream waits for it instead."""
    missing = (options.topics or frozenset()) - {topic for topic, _ in present}
    if missing:
        names = ", ".join(map(repr, sorted(missing)))
        queue = "" if options.queue_id is None else f", or it has no queue {options.queue_id}"
        raise ValueError(f"binlog: {store.path} has no topic {names}{queue}")


def resolve_all(
    position: Position, default: Start, store: ColumnReader, present: Mapping[Queue, range], *, fail_on_data_loss: bool
) -> dict[Queue, int]:
    """Return the queue offset of a position in each queue.  default: for queues that the position does not name.

    Raises: ValueError if it names a missing queue, or an offset after the end of a queue; GoneError.
    """
    if isinstance(position, Mapping):
        for topic, queue_id in position.keys() - present.keys():
            raise ValueError(f"binlog: {store.path}: the position names {topic}/{queue_id}, but there is no such queue")
    return {
        queue: resolve(
            default if isinstance(position, Mapping) and queue not in position else position,
            store,
            queue,
            indexes,
            fail_on_data_loss=fail_on_data_loss,
        )
        for queue, indexes in present.items()
    }


def queue_range(store: ColumnReader, queue: Queue, indexes: range) -> QueueRange | None:
    """Return a range of messages; None if it is empty."""
    if not indexes:
        return None
    return QueueRange(*queue, indexes.start, indexes.stop, store.message_bytes(*queue, indexes))


def divide(ranges: Iterable[QueueRange], options: StoreReadOptions) -> list[Task[QueueRange]]:
    """Divide ranges into tasks of about the requested size."""
    whole = list(ranges)
    target = target_bytes(whole, options)
    return put_together(_split(whole, target), target)


def _split(ranges: Iterable[QueueRange], target: int) -> Iterator[QueueRange]:
    for part in ranges:
        if part.size <= target * OVER:
            yield part
            continue
        count = max(target // part.message_bytes, 1)
        for start in range(part.start, part.stop, count):
            yield replace(part, start=start, stop=min(start + count, part.stop))
