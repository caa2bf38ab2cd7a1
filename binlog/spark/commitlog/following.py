"""Following a store with Structured Streaming.

An offset of the stream has the next queue offset of each topic and queue.  A queue that is created while a stream runs
is read from its start, which is queue offset 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from binlog import Start
from binlog.commitlog import ColumnReader
from binlog.errors import GoneError
from binlog.spark.commitlog.options import Queue, StoreReadOptions, from_json, removal_text, to_json
from binlog.spark.commitlog.partitions import QueueRange, chosen_queues, divide, queue_range, resolve_all
from binlog.spark.commitlog.reading import QueuesReader
from binlog.spark.schema import Field
from binlog.spark.stream import LimitedReader, Offset, shares
from binlog.spark.tasks import Task


class StreamReader(QueuesReader, LimitedReader):
    """A stream of messages, in order within each queue."""

    def __init__(self, options: StoreReadOptions, fields: Sequence[Field]) -> None:
        QueuesReader.__init__(self, options, fields)
        LimitedReader.__init__(self, options)
        self._known: tuple[object, dict[Queue, int]] = None, {}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the start of a new query.  Raises: ValueError, GoneError, AccessError, CorruptError."""
        options = self._options
        with ColumnReader(options.path) as store:
            present = chosen_queues(store, options)
            at = resolve_all(
                options.start, Start.BEGINNING, store, present, fail_on_data_loss=options.fail_on_data_loss
            )
        return to_json(at)

    def partitions(self, start: Offset, end: Offset) -> list[Task[QueueRange]]:
        """Return the tasks of a batch.  Raises: GoneError if messages are gone; CorruptError, AccessError."""
        starts = from_json(start)
        with ColumnReader(self._options.path) as store:
            parts = [self._part(store, queue, starts.get(queue, 0), stop) for queue, stop in from_json(end).items()]
        return divide([part for part in parts if part is not None], self._options)

    def _part(self, store: ColumnReader, queue: Queue, start: int, stop: int) -> QueueRange | None:
        """Return the messages between two offsets of a queue; None if there are none."""
        if start == stop:
            return None
        present = store.queue_range(*queue)
        loss = _loss(queue, present, start, stop)
        if loss is None:
            return queue_range(store, queue, range(start, stop))
        if self._options.fail_on_data_loss:
            raise GoneError(f"{store.path}: {loss}; set failOnDataLoss=false to continue with the remaining messages")
        begin = present.start if start > stop else max(start, present.start)
        return queue_range(store, queue, range(begin, min(stop, present.stop)))

    def _ends(self, start: Offset) -> Offset:
        """Return the end of each queue; 0 for a removed queue, so that `partitions` reports it."""
        with ColumnReader(self._options.path) as store:
            reader_state = store.reader_state()
            # An idle query calls this a hundred times a second, and there may be many queues.
            if reader_state is None or reader_state != self._known[0]:
                present = chosen_queues(store, self._options)
                self._known = reader_state, {queue: indexes.stop for queue, indexes in present.items()}
        return to_json({**dict.fromkeys(from_json(start), 0), **self._known[1]})

    def _within_limits(self, start: Offset, ends: Offset) -> Offset:
        """Divide the limits among the queues, in proportion to their new messages."""
        starts, reached = from_json(start), from_json(ends)
        with ColumnReader(self._options.path) as store:
            parts = {
                queue: part
                for queue, stop in reached.items()
                if (part := queue_range(store, queue, range(starts.get(queue, 0), stop))) is not None
            }
            records = shares(self._options.records_per_trigger, {queue: part.count for queue, part in parts.items()})
            size = shares(self._options.bytes_per_trigger, {queue: part.size for queue, part in parts.items()})
            for queue, part in parts.items():
                stop = min(part.stop, part.start + records.get(queue, part.count))
                share = size.get(queue)
                if share == 0:
                    stop = part.start
                elif share is not None and stop > part.start:
                    stop = store.limit_range(*queue, range(part.start, stop), share)
                reached[queue] = stop
        return to_json(reached)

    def _moved(self, start: Offset, ends: Offset) -> Offset:
        return to_json({**from_json(start), **from_json(ends)})


def _loss(queue: Queue, present: range, start: int, stop: int) -> str | None:
    """Return a text about messages of a batch that are gone; None if all can be read."""
    topic, queue_id = queue
    if max(start, stop) > present.stop:
        return f"{topic}/{queue_id} was read up to queue offset {max(start, stop)}, but now ends at {present.stop}"
    return removal_text(queue, start, present.start) if start < present.start else None
