"""Read journal files into Arrow batches; the batch readers of journals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from binlog.errors import GoneError, NotFoundError
from binlog.journal import PartReader
from binlog.spark.journal.columns import arrow_schema, damage_batch, record_batches
from binlog.spark.journal.options import JournalReadOptions
from binlog.spark.journal.partitions import JournalPart, WantedRecords, plan
from binlog.spark.schema import Field
from binlog.spark.shared_fs import retry_until_visible
from binlog.spark.tasks import Task, TaskReader


class BatchReader(TaskReader[JournalPart], DataSourceReader):
    """A batch reader of the records in the journal at planning time."""

    def __init__(self, options: JournalReadOptions, fields: Sequence[Field]) -> None:
        # The states of records depend on the records in all files, so no file may be skipped.
        super().__init__(fail_on_data_loss=True)
        self._options = options
        self._fields = tuple(fields)
        self._wanted = WantedRecords()

    def partitions(self) -> list[Task[JournalPart]]:
        """Return the tasks.  Raises: as `plan`."""
        return plan(self._options, self._wanted)

    def _part_reader(self) -> Callable[[JournalPart], Iterator[pa.RecordBatch]]:
        return partial(self._read, schema=arrow_schema(self._fields))

    def _read(self, part: JournalPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if part.damage:
            yield damage_batch(part.damage, self._fields, schema)
        if part.file is None:
            return
        try:
            reader = retry_until_visible(partial(PartReader, part.file), self._machine)
        except NotFoundError as error:
            text = "its owner has reused or removed the file since the read was planned"
            raise GoneError(f"{error}: {text}; read again, or read less at a time") from error
        for found in reader:
            yield from record_batches(
                found, part.file, self._wanted, self._fields, schema, self._options.record_bytes_max
            )


class FilteringReader(BatchReader):
    """A batch reader to which Spark pushes filters down; see the log's reader of this name."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Use the filters to bound the read, and return all of them for Spark to apply again."""
        self._wanted.add(filters)
        return filters
