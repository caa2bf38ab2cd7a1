"""Reading in batch: on the driver the tasks are planned, in a task a range of a file becomes Arrow batches."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

import binlog
from binlog import Batch, Reader, Ref
from binlog.errors import CorruptError, GoneError
from binlog.spark.columns import arrow_schema, record_batch
from binlog.spark.options import Options
from binlog.spark.partitions import FileRange, plan_files
from binlog.spark.schema import Field

# Batches of 256 KiB to 16 MiB are equally fast; smaller and much larger ones are slower (measured).
_BYTES_MAX = 1 << 20
# Bounds the other columns where records are tiny: 24 bytes a record.
_RECORDS_MAX = 1 << 16

_SEQUENCE_MAX = 2**63 - 1


class BatchReader(DataSourceReader):
    """Made on the driver, and pickled to the tasks."""

    def __init__(self, options: Options, fields: Sequence[Field]) -> None:
        self._options = options
        self._fields = tuple(fields)

    def partitions(self) -> list[FileRange]:
        """One task a file, for what is in the log now.  Raises: AccessError, CorruptError, VersionError."""
        return plan_files(self._options.path)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one partition, in order.

        Raises: CorruptError, AccessError, GoneError, FullError for a record over the limit of a Reader.
        """
        # For a log with nothing in it, Spark makes up a partition of its own.
        if not isinstance(partition, FileRange):
            return
        _spare_collections()
        schema = arrow_schema(self._fields)
        for batch in read_range(partition):
            yield record_batch(batch, self._fields, schema)


def read_range(part: FileRange) -> Iterator[Batch]:
    """Every record of a range, in batches.  Raises: as `BatchReader.read`."""
    with _open(part) as reader:
        _check_log(part)
        offset = part.start
        while offset < part.end:
            batch = reader.read_batch(records_max=_RECORDS_MAX, bytes_max=min(_BYTES_MAX, part.end - offset))
            if not batch or batch.number != part.number or batch.next_ref.offset > part.end:
                text = f"the records from here do not end at {part.end}, the tail that was seen before"
                raise CorruptError(part.path, offset, "tail", f"file {part.number}: {text}")
            _check_sequence(part, batch)
            offset = batch.next_ref.offset
            yield batch


def _open(part: FileRange) -> Reader:
    try:
        return Reader(part.path, Ref(part.number, part.start), follow=False)
    except ValueError as error:
        # The ref was a record's when the tasks were planned, so it is no wrong argument.
        raise GoneError(f"{part.path}: file {part.number} is not what it was when the read began ({error})") from error


def _check_log(part: FileRange) -> None:
    """Raise GoneError where the file, open by now, is one of another log than when the tasks were planned."""
    found = next((file.uuid for file in binlog.stat(part.path).files if file.number == part.number), None)
    if found != part.uuid:
        raise GoneError(f"{part.path}: file {part.number} belongs to another log than when the read began")


def _check_sequence(part: FileRange, batch: Batch) -> None:
    if batch.first_sequence is not None and batch.first_sequence + len(batch) > _SEQUENCE_MAX:
        text = f"file {part.number}: sequence {batch.first_sequence} is more than a LONG can hold"
        raise CorruptError(part.path, batch.offset, "sequence", text)


_calls = itertools.count()


def _spare_collections() -> None:
    """Tell Python's garbage collector to leave alone what is there.

    After each task a Python worker collects garbage, and walks every object of every module that was imported: some
    30 ms.  The first calls of a process only, so that no task's own objects pile up.
    """
    if next(_calls) < 3:
        gc.freeze()
