"""Read ranges of log files into Arrow batches; the batch readers of logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from binlog import RangeReader, TimedBatch
from binlog.errors import CorruptError, GoneError, NotFoundError
from binlog.moving.remote_directory import redacted
from binlog.spark.columns import Damage, arrow_schema, damage_batch, record_batch
from binlog.spark.log.message_columns import message_types
from binlog.spark.log.options import ReadOptions, is_url
from binlog.spark.log.partitions import WantedRecords, plan
from binlog.spark.log.record_parser import RecordParser, load_parser
from binlog.spark.log.snapshot import FileRange
from binlog.spark.remote.remote_log import read_remote
from binlog.spark.schema import Field
from binlog.spark.shared_fs import retry_until_visible, this_machine
from binlog.spark.tasks import Task, TaskReader

_SEQUENCE_MAX = 2**63 - 1


class RangesReader(TaskReader[FileRange]):
    """Reads ranges of log files."""

    def __init__(self, options: ReadOptions, fields: Sequence[Field]) -> None:
        super().__init__(fail_on_data_loss=options.fail_on_data_loss)
        self._options = options
        self._fields = tuple(fields)

    def _part_reader(self) -> Callable[[FileRange], Iterator[pa.RecordBatch]]:
        schema = arrow_schema(self._fields)
        messages = message_types(self._fields, schema) if self._options.messages else None
        make = partial(record_batch, fields=self._fields, schema=schema, parser=self._parser(schema), messages=messages)
        return partial(self._read, schema=schema, make=make)

    def _parser(self, schema: pa.Schema) -> RecordParser | None:
        """Return the parser of `parsed`, `bad` and `error`, or None if no such column is asked for."""
        kinds = [schema.field(field.name).type for field in self._fields if field.column == "parsed"]
        if self._options.parser is None or not kinds:
            return None
        return RecordParser(load_parser(self._options.parser), kinds[0])

    def _read(
        self, part: FileRange, schema: pa.Schema, make: Callable[[TimedBatch, str], pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        source = redacted(part.path) if is_url(part.path) else part.path
        for found in self._read_range(part):
            if isinstance(found, TimedBatch):
                yield make(found, source)
            elif self._options.permissive:
                yield damage_batch(source, part.number, found, self._fields, schema)
            else:
                raise found.error

    def _read_range(self, part: FileRange) -> Iterator[TimedBatch | Damage]:
        read = partial(read_range, record_bytes_max=self._options.record_bytes_max)
        if is_url(part.path):
            return read_remote(part, partial(read, planned_on=this_machine()))  # the copy is local and complete
        return read(part, planned_on=self._machine)


class BatchReader(RangesReader, DataSourceReader):
    """A batch reader of the records in the logs at planning time."""

    def __init__(self, options: ReadOptions, fields: Sequence[Field]) -> None:
        super().__init__(options, fields)
        self._wanted = WantedRecords()

    def partitions(self) -> list[Task[FileRange]]:
        """Return the tasks.  Raises: ValueError, GoneError, AccessError, CorruptError, VersionError."""
        return plan(self._options, self._wanted)


class FilteringReader(BatchReader):
    """A batch reader to which Spark pushes filters down.

    It is a class of its own because Spark rejects readers with this method unless filter pushdown is switched on
    (spark.sql.python.filterPushdown.enabled); by default it is off.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Use the filters to bound the read, and return all of them for Spark to apply again."""
        self._wanted.add(filters)
        return filters


def read_range(part: FileRange, *, planned_on: str, record_bytes_max: int) -> Iterator[TimedBatch | Damage]:
    """Yield every record of a range, and the damage in it.  planned_on: `this_machine()` of the planner."""

    def opened() -> RangeReader:
        return RangeReader(part.path, part.number, part.start, part.end, record_bytes_max=record_bytes_max)

    try:
        with retry_until_visible(opened, planned_on) as reader:
            if reader.uuid != part.uuid:
                raise GoneError(f"{part.path}: file {part.number} now belongs to another log than at planning time")
            for found in reader:
                if isinstance(found, TimedBatch):
                    _check_sequence(part, found)
                    yield found
                else:
                    text = f"the bytes from here to {found.end} do not match the index"
                    yield Damage(found.start, found.end, CorruptError(reader.file_path, found.start, "range", text))
    except CorruptError as error:
        # The start of the next record is unknown.  Damage before this part is reported by another part.
        yield Damage(max(error.offset, part.start), part.end, error)
    except NotFoundError as error:
        raise GoneError(f"{part.path}: file {part.number} was removed since the read was planned") from error
    except ValueError as error:
        # The bounds were valid when the tasks were planned, so this is not a wrong argument.
        text = f"{part.path}: file {part.number} has changed since the read was planned ({error})"
        raise GoneError(text) from error


def _check_sequence(part: FileRange, found: TimedBatch) -> None:
    first = found.batch.first_sequence
    if first is not None and first + len(found.batch) > _SEQUENCE_MAX:
        text = f"file {part.number}: sequence {first} is more than a LONG can hold"
        raise CorruptError(part.path, found.batch.offset, "sequence", text)
