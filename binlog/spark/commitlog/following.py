"""The stream reader of commit logs, for Structured Streaming.

An offset has the next queue offset of each topic and queue.  A queue that is created while the stream runs is read from
its beginning, queue offset 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from binlog import Start
from binlog.commitlog import ColumnReader
from binlog.errors import GoneError
from binlog.spark.commitlog.options import Queue, StoreReadOptions, from_json, loss_text, to_json
from binlog.spark.commitlog.partitions import QueueRange, chosen_queues, divide, queue_range, resolve_all
from binlog.spark.commitlog.reading import QueuesReader
from binlog.spark.schema import Field
from binlog.spark.stream import LimitedReader, Offset, divide_limit
from binlog.spark.tasks import Task


class StreamReader(QueuesReader, LimitedReader):
    """Reads the messages of each queue in order."""

    def __init__(self, options: StoreReadOptions, fields: Sequence[Field]) -> None:
        QueuesReader.__init__(self, options, fields)
        LimitedReader.__init__(self, options)
        self._known: tuple[object, dict[Queue, int]] = None, {}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the start of a new query.  Raises: ValueError, GoneError, AccessError, CorruptError."""
        options = self._options
        with ColumnReader(options.path) as store:
            existing = chosen_queues(store, options)
            at = resolve_all(
                options.start, Start.BEGINNING, store, existing, fail_on_data_loss=options.fail_on_data_loss
            )
        return to_json(at)

    def partitions(self, start: Offset, end: Offset) -> list[Task[QueueRange]]:
        """Return the tasks of one batch.  Raises: GoneError if its messages were removed; CorruptError, AccessError."""
        starts = from_json(start)
        with ColumnReader(self._options.path) as store:
            parts = [self._part(store, queue, starts.get(queue, 0), stop) for queue, stop in from_json(end).items()]
        return divide([part for part in parts if part is not None], self._options)

    def _part(self, store: ColumnReader, queue: Queue, start: int, stop: int) -> QueueRange | None:
        """Return the messages between two queue offsets, or None if there are none."""
        if start == stop:
            return None
        existing = store.queue_range(*queue)
        loss = _loss_reason(queue, existing, start, stop)
        if loss is None:
            return queue_range(store, queue, range(start, stop))
        if self._options.fail_on_data_loss:
            raise GoneError(f"{store.path}: {loss}; use failOnDataLoss=false to continue with the remaining messages")
        begin = existing.start if start > stop else max(start, existing.start)
        return queue_range(store, queue, range(begin, min(stop, existing.stop)))

    def _end_offset(self, start: Offset) -> Offset:
        """Return the end of each queue; 0 for a removed one that the stream has read, so that `partitions` reports
        it."""
        with ColumnReader(self._options.path) as store:
            news = store.reader_state()
            # An idle query asks a hundred times per second, and there may be many queues.
            if news is None or news != self._known[0]:
                existing = chosen_queues(store, self._options)
                self._known = news, {queue: indexes.stop for queue, indexes in existing.items()}
        return to_json({**dict.fromkeys(from_json(start), 0), **self._known[1]})

    def _within_limits(self, start: Offset, ends: Offset) -> Offset:
        """Give each queue a share of the limits in proportion to the size of its data."""
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
                    stop = store.limit_range(*queue, range(part.start, stop), share)
                reached[queue] = stop
        return to_json(reached)

    def _advanced(self, start: Offset, ends: Offset) -> Offset:
        return to_json({**from_json(start), **from_json(ends)})


def _loss_reason(queue: Queue, existing: range, start: int, stop: int) -> str | None:
    """Return why a batch can no longer be read in full, or None if it can."""
    topic, queue_id = queue
    if max(start, stop) > existing.stop:
        return f"{topic}/{queue_id} was read up to queue offset {max(start, stop)} and now ends at {existing.stop}"
    return loss_text(queue, start, existing.start) if start < existing.start else None
