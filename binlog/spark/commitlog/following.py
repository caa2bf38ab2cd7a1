"""Following a store with Structured Streaming.

An offset has, for each topic and queue, the queue offset that comes next.  A queue that comes while a stream runs is
read from its beginning, which is queue offset 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from binlog import Start
from binlog.commitlog import ColumnReader
from binlog.errors import GoneError
from binlog.spark.commitlog.options import Queue, StoreReadOptions, from_json, lost, to_json
from binlog.spark.commitlog.partitions import QueueRange, chosen_queues, divide, places, queue_range
from binlog.spark.commitlog.reading import QueuesReader
from binlog.spark.schema import Field
from binlog.spark.stream import LimitedReader, Offset, divide_limit
from binlog.spark.tasks import Task


class StreamReader(QueuesReader, LimitedReader):
    """Gives the messages of each queue in their order."""

    def __init__(self, options: StoreReadOptions, fields: Sequence[Field]) -> None:
        QueuesReader.__init__(self, options, fields)
        LimitedReader.__init__(self, options)
        self._known: tuple[object, dict[Queue, int]] = None, {}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a new query begins.  Raises: ValueError, GoneError, AccessError, CorruptError."""
        options = self._options
        with ColumnReader(options.path) as store:
            there = chosen_queues(store, options)
            at = places(options.start, Start.BEGINNING, store, there, fail_on_data_loss=options.fail_on_data_loss)
        return to_json(at)

    def partitions(self, start: Offset, end: Offset) -> list[Task[QueueRange]]:
        """The tasks of one batch.  Raises: GoneError where it cannot be had any more; CorruptError, AccessError."""
        starts = from_json(start)
        with ColumnReader(self._options.path) as store:
            parts = [self._part(store, queue, starts.get(queue, 0), stop) for queue, stop in from_json(end).items()]
        return divide([part for part in parts if part is not None], self._options)

    def _part(self, store: ColumnReader, queue: Queue, start: int, stop: int) -> QueueRange | None:
        """What lies between two places in one queue."""
        if start == stop:
            return None
        there = store.queue_range(*queue)
        loss = _loss(queue, there, start, stop)
        if loss is None:
            return queue_range(store, queue, range(start, stop))
        if self._options.fail_on_data_loss:
            raise GoneError(f"{store.path}: {loss}; failOnDataLoss=false goes on with what is there")
        begin = there.start if start > stop else max(start, there.start)
        return queue_range(store, queue, range(begin, min(stop, there.stop)))

    def _end_offset(self, start: Offset) -> Offset:
        """Where each queue ends; one that the stream has read and that is gone ends at 0, for `partitions` to tell."""
        with ColumnReader(self._options.path) as store:
            news = store.news()
            # An idle query asks a hundred times a second, and there may be many queues.
            if news is None or news != self._known[0]:
                there = chosen_queues(store, self._options)
                self._known = news, {queue: indexes.stop for queue, indexes in there.items()}
        return to_json({**dict.fromkeys(from_json(start), 0), **self._known[1]})

    def _within_limits(self, start: Offset, ends: Offset) -> Offset:
        """Each queue gets a share of the limits that is as large as its share of what there is to read."""
        starts, reached = from_json(start), from_json(ends)
        with ColumnReader(self._options.path) as store:
            parts = {
                queue: part
                for queue, stop in reached.items()
                if (part := queue_range(store, queue, range(starts.get(queue, 0), stop))) is not None
            }
            records = divide_limit(
                self._options.records_per_trigger, {queue: part.count for queue, part in parts.items()}
            )
            size = divide_limit(self._options.bytes_per_trigger, {queue: part.size for queue, part in parts.items()})
            for queue, part in parts.items():
                stop = min(part.stop, part.start + records.get(queue, part.count))
                share = size.get(queue)
                if share == 0:
                    stop = part.start
                elif share is not None and stop > part.start:
                    stop = store.forward(*queue, range(part.start, stop), share)
                reached[queue] = stop
        return to_json(reached)

    def _advanced(self, start: Offset, ends: Offset) -> Offset:
        return to_json({**from_json(start), **from_json(ends)})


def _loss(queue: Queue, there: range, start: int, stop: int) -> str | None:
    """What of a batch cannot be had any more; None where all of it can."""
    topic, queue_id = queue
    if max(start, stop) > there.stop:
        return f"{topic}/{queue_id} was read up to queue offset {max(start, stop)}, and now ends at {there.stop}"
    return lost(queue, start, there.start) if start < there.start else None
