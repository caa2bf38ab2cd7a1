"""The batch reader, whose tasks turn ranges of queues into Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from binlog.commitlog import ColumnReader
from binlog.errors import GoneError, NotFoundError
from binlog.spark.commitlog.columns import arrow_schema, record_batch, required_columns
from binlog.spark.commitlog.options import StoreReadOptions, removal_text
from binlog.spark.commitlog.partitions import QueueRange, WantedMessages, plan
from binlog.spark.other_machine import when_seen
from binlog.spark.schema import Field
from binlog.spark.tasks import Task, TaskReader


class QueuesReader(TaskReader[QueueRange]):
    """Reads ranges of queues in a task."""

    def __init__(self, options: StoreReadOptions, fields: Sequence[Field]) -> None:
        super().__init__(fail_on_data_loss=options.fail_on_data_loss)
        self._options = options
        self._fields = tuple(fields)

    def _begin(self) -> Callable[[QueueRange], Iterator[pa.RecordBatch]]:
        return partial(self._read, schema=arrow_schema(self._fields), wanted=required_columns(self._fields))

    def _read(self, part: QueueRange, schema: pa.Schema, wanted: set[str]) -> Iterator[pa.RecordBatch]:
        try:
            store = when_seen(partial(_open_reader, self._options.path, part), self._machine)
        except NotFoundError as error:
            raise GoneError(f"{error}; it existed when the read was planned") from error
        with store:
            indexes = range(self._start(store, part), part.stop)
            limit, tag = self._options.record_bytes_max, self._options.tag
            queue = part.topic, part.queue_id
            for found in store.columns(*queue, indexes, wanted, tag=tag, message_bytes_max=limit):
                yield record_batch(found, part, self._fields, schema)

    def _start(self, store: ColumnReader, part: QueueRange) -> int:
        """Return the first remaining message of a range, because some may have been removed since the planning."""
        queue = part.topic, part.queue_id
        start = min(store.queue_range(*queue).start, part.stop)
        if start <= part.start:
            return part.start
        self._pass_over(GoneError(f"{store.path}: {removal_text(queue, part.start, start)}"))
        return start


def _open_reader(path: str, part: QueueRange) -> ColumnReader:
    """Open a reader that sees the range.  Raises: NotFoundError."""
    store = ColumnReader(path)
    present = store.queue_range(part.topic, part.queue_id)
    if present.stop >= part.stop:
        return store
    store.close()
    raise NotFoundError(f"{path}: {part.topic}/{part.queue_id} ends at queue offset {present.stop}, before {part.stop}")


class BatchReader(QueuesReader, DataSourceReader):
    """Reads the messages that the store has when the query is planned."""

    def __init__(self, options: StoreReadOptions, fields: Sequence[Field]) -> None:
        super().__init__(options, fields)
        self._wanted = WantedMessages()

    def partitions(self) -> list[Task[QueueRange]]:
        """Plan the tasks.  Raises: ValueError, GoneError, AccessError, CorruptError."""
        return plan(self._options, self._wanted)


class FilteringReader(BatchReader):
    """Reads less if filters allow that; a class of its own, like the log's."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take note of the filters, and leave all of them for Spark to apply."""
        self._wanted.add(filters)
        return filters
