"""Read parts of queues into Arrow batches; the batch readers of commit logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from binlog.commitlog import ColumnReader
from binlog.errors import GoneError, NotFoundError
from binlog.spark.commitlog.columns import arrow_schema, needed, record_batch
from binlog.spark.commitlog.options import StoreReadOptions, loss_text
from binlog.spark.commitlog.partitions import QueueRange, WantedMessages, plan
from binlog.spark.schema import Field
from binlog.spark.shared_fs import retry_until_visible
from binlog.spark.tasks import Task, TaskReader


class QueuesReader(TaskReader[QueueRange]):
    """Reads parts of queues."""

    def __init__(self, options: StoreReadOptions, fields: Sequence[Field]) -> None:
        super().__init__(fail_on_data_loss=options.fail_on_data_loss)
        self._options = options
        self._fields = tuple(fields)

    def _part_reader(self) -> Callable[[QueueRange], Iterator[pa.RecordBatch]]:
        return partial(self._read, schema=arrow_schema(self._fields), wanted=needed(self._fields))

    def _read(self, part: QueueRange, schema: pa.Schema, wanted: set[str]) -> Iterator[pa.RecordBatch]:
        try:
            store = retry_until_visible(partial(_opened, self._options.path, part), self._machine)
        except NotFoundError as error:
            raise GoneError(f"{error}; it was removed since the read was planned") from error
        with store:
            indexes = range(self._start(store, part), part.stop)
            limit, tag = self._options.record_bytes_max, self._options.tag
            queue = part.topic, part.queue_id
            for found in store.columns(*queue, indexes, wanted, tag=tag, message_bytes_max=limit):
                yield record_batch(found, part, self._fields, schema)

    def _start(self, store: ColumnReader, part: QueueRange) -> int:
        """Return the first remaining message of a part; some may have been removed since it was planned."""
        queue = part.topic, part.queue_id
        start = min(store.queue_range(*queue).start, part.stop)
        if start <= part.start:
            return part.start
        self._skip_or_raise(GoneError(f"{store.path}: {loss_text(queue, part.start, start)}"))
        return start


def _opened(path: str, part: QueueRange) -> ColumnReader:
    """Open the store if that part is visible.  Raises: NotFoundError."""
    store = ColumnReader(path)
    existing = store.queue_range(part.topic, part.queue_id)
    if existing.stop >= part.stop:
        return store
    store.close()
    raise NotFoundError(
        f"{path}: {part.topic}/{part.queue_id} ends at queue offset {existing.stop}, before {part.stop}"
    )


class BatchReader(QueuesReader, DataSourceReader):
    """A batch reader of the messages in the store at planning time."""

    def __init__(self, options: StoreReadOptions, fields: Sequence[Field]) -> None:
        super().__init__(options, fields)
        self._wanted = WantedMessages()

    def partitions(self) -> list[Task[QueueRange]]:
        """Return the tasks.  Raises: ValueError, GoneError, AccessError, CorruptError."""
        return plan(self._options, self._wanted)


class FilteringReader(BatchReader):
    """A batch reader to which Spark pushes filters down; see the log's reader of this name."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Use the filters to bound the read, and return all of them for Spark to apply again."""
        self._wanted.add(filters)
        return filters
