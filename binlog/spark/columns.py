"""Arrow columns made from a batch of records, with no Python object for any record.

Facts relied on:

- An Arrow `binary` column is one run of bytes, and int32 bounds before, between and after its values: just what
  `Batch.packed()` gives.
- PySpark passes a RecordBatch through as it is where its schema is exactly the one expected: names, order, types, and
  whether each field may be null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from binlog import Batch
from binlog.spark.schema import Field


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """The schema of the batches that `record_batch` makes."""
    return pa.schema([pa.field(field.name, _TYPES[field.column], field.nullable) for field in fields])


def record_batch(batch: Batch, fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
    """The columns asked for, of the records of a batch.  schema: `arrow_schema(fields)`."""
    return pa.RecordBatch.from_arrays([_BUILDERS[field.column](batch) for field in fields], schema=schema)


def _number(batch: Batch) -> pa.Array:
    return pa.repeat(pa.scalar(batch.number, pa.int64()), len(batch))


def _offset(batch: Batch) -> pa.Array:
    # One more offset is there than records; Arrow looks at as many as it is told.
    offsets = pa.Array.from_buffers(pa.uint32(), len(batch), [None, pa.py_buffer(batch.offsets)])
    return pc.add(offsets.cast(pa.int64()), pa.scalar(batch.offset, pa.int64()))


def _sequence(batch: Batch) -> pa.Array:
    if batch.first_sequence is None:
        return pa.nulls(len(batch), pa.int64())
    # The running sum of ones that begins at first - 1 is first, first + 1, ...
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(batch))
    return pc.cumulative_sum(ones, start=pa.scalar(batch.first_sequence - 1, pa.int64()))


def _data(batch: Batch) -> pa.Array:
    values, bounds = batch.packed()
    return pa.Array.from_buffers(pa.binary(), len(batch), [None, pa.py_buffer(bounds), pa.py_buffer(values)])


_TYPES = {"number": pa.int64(), "offset": pa.int64(), "sequence": pa.int64(), "data": pa.binary()}

_BUILDERS: dict[str, Callable[[Batch], pa.Array]] = {
    "number": _number,
    "offset": _offset,
    "sequence": _sequence,
    "data": _data,
}
