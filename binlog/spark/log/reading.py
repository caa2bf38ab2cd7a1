"""What a task does: ranges of files become Arrow batches.  And reading in batch, for which tasks are planned once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from binlog import RangeReader, TimedBatch
from binlog.errors import CorruptError, GoneError, NotFoundError
from binlog.spark.columns import Damage, arrow_schema, damage_batch, record_batch
from binlog.spark.log.options import ReadOptions, is_url
from binlog.spark.log.partitions import Wanted, plan
from binlog.spark.log.record_parser import RecordParser, load_parser
from binlog.spark.log.snapshot import FileRange
from binlog.spark.other_machine import this_machine, when_seen
from binlog.spark.remote.remote import shown
from binlog.spark.remote.remote_log import read_remote
from binlog.spark.schema import Field
from binlog.spark.tasks import Task, TaskReader

_SEQUENCE_MAX = 2**63 - 1


class RangesReader(TaskReader[FileRange]):
    """Reads ranges of files."""

    def __init__(self, options: ReadOptions, fields: Sequence[Field]) -> None:
        super().__init__(fail_on_data_loss=options.fail_on_data_loss)
        self._options = options
        self._fields = tuple(fields)

    def _begin(self) -> Callable[[FileRange], Iterator[pa.RecordBatch]]:
        schema = arrow_schema(self._fields)
        return partial(self._read, schema=schema, parser=self._parser(schema))

    def _parser(self, schema: pa.Schema) -> RecordParser | None:
        """What makes the columns `parsed`, `bad` and `error`, where one of them is asked for."""
        kinds = [schema.field(field.name).type for field in self._fields if field.column == "parsed"]
        if self._options.parser is None or not kinds:
            return None
        return RecordParser(load_parser(self._options.parser), kinds[0])

    def _read(self, part: FileRange, schema: pa.Schema, parser: RecordParser | None) -> Iterator[pa.RecordBatch]:
        source = shown(part.path) if is_url(part.path) else part.path
        for found in self._found(part):
            if isinstance(found, TimedBatch):
                yield record_batch(found, source, self._fields, schema, parser)
            elif self._options.permissive:
                yield damage_batch(source, part.number, found, self._fields, schema)
            else:
                raise found.error

    def _found(self, part: FileRange) -> Iterator[TimedBatch | Damage]:
        read = partial(read_range, record_bytes_max=self._options.record_bytes_max)
        if is_url(part.path):
            return read_remote(part, partial(read, planned_on=this_machine()))  # what is copied is all here
        return read(part, planned_on=self._machine)


class BatchReader(RangesReader, DataSourceReader):
    """Reads what the logs hold when the query is planned."""

    def __init__(self, options: ReadOptions, fields: Sequence[Field]) -> None:
        super().__init__(options, fields)
        self._wanted = Wanted()

    def partitions(self) -> list[Task[FileRange]]:
        """Raises: ValueError, GoneError, AccessError, CorruptError, VersionError."""
        return plan(self._options, self._wanted)


class FilteringReader(BatchReader):
    """Lets filters narrow what is read.

    A class of its own, for Spark lets no reader have this method where filter pushdown is switched off, as it is by
    default (spark.sql.python.filterPushdown.enabled).
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take in the filters, and leave all of them for Spark to apply."""
        self._wanted.add(filters)
        return filters


def read_range(part: FileRange, *, planned_on: str, record_bytes_max: int) -> Iterator[TimedBatch | Damage]:
    """Every record of a range.  planned_on: `this_machine()` at its planning.  Raises: as a task, but for damage."""

    def opened() -> RangeReader:
        return RangeReader(part.path, part.number, part.start, part.end, record_bytes_max=record_bytes_max)

    try:
        with when_seen(opened, planned_on) as reader:
            if reader.uuid != part.uuid:
                raise GoneError(f"{part.path}: file {part.number} belongs to another log than when it was planned")
            for found in reader:
                if isinstance(found, TimedBatch):
                    _check_sequence(part, found)
                    yield found
                else:
                    text = f"the bytes from here to {found.end} are not what was written"
                    yield Damage(found.start, found.end, CorruptError(reader.file_path, found.start, "range", text))
    except CorruptError as error:
        # Nothing tells where the next record starts; and what is before the part is others' to tell of.
        yield Damage(max(error.offset, part.start), part.end, error)
    except NotFoundError as error:
        raise GoneError(f"{part.path}: file {part.number} was removed since the read was planned") from error
    except ValueError as error:
        # The bounds were those of records when the tasks were planned, so they are no wrong arguments.
        text = f"{part.path}: file {part.number} is not what it was when the read was planned ({error})"
        raise GoneError(text) from error


def _check_sequence(part: FileRange, found: TimedBatch) -> None:
    first = found.batch.first_sequence
    if first is not None and first + len(found.batch) > _SEQUENCE_MAX:
        text = f"file {part.number}: sequence {first} is more than a LONG can hold"
        raise CorruptError(part.path, found.batch.offset, "sequence", text)
