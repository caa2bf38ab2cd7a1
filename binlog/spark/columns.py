"""Build Arrow columns from a batch of records, without a Python object for any record.

Only the columns of messages need objects: see binlog/spark/log/message_columns.py.

Facts relied on:

- An Arrow `binary` column is a buffer of bytes with int32 bounds before, between and after the values, which is what
  `Batch.packed()` returns.
- PySpark passes a RecordBatch through unchanged if its schema equals the expected one in names, order, types and
  nullability.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlog import TimedBatch
from binlog.errors import CorruptError
from binlog.spark.log.message_columns import MESSAGE_TYPES, message_columns
from binlog.spark.log.record_parser import RecordParser, arrow_type
from binlog.spark.schema import Field

_TIME = pa.timestamp("us", "UTC")
DAMAGE_TYPE = pa.struct([pa.field("end", pa.int64()), pa.field("reason", pa.string())])


class Damage(NamedTuple):
    """A range of bytes in a file from which no records can be read."""

    start: int
    end: int
    error: CorruptError


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the schema of the batches that this module makes."""
    return schema_of_types(fields, _TYPES)


def schema_of_types(fields: Sequence[Field], types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the schema of these fields.  types: by column, for fields without a type of their own."""
    kinds = [types[field.column] if field.kind is None else arrow_type(field.kind) for field in fields]
    each = zip(fields, kinds, strict=True)
    return pa.schema([pa.field(field.name, kind, field.nullable) for field, kind in each])


def record_batch(
    timed: TimedBatch,
    source: str,
    fields: Sequence[Field],
    schema: pa.Schema,
    *,
    parser: RecordParser | None = None,
    messages: Mapping[str, pa.DataType] | None = None,
) -> pa.RecordBatch:
    """Return the columns asked for of a batch of records.

    source: its log.  schema: `arrow_schema(fields)`.  messages: the columns to make of the messages in the records.
    """
    made: dict[str, pa.Array] = {}
    if messages:
        made = message_columns(_data(timed, source), messages)
    if parser is not None:
        data = made["data"] if "data" in made else _data(timed, source)
        made["parsed"], made["bad"], made["error"] = parser.parse(data)
    arrays = [
        made[field.column] if field.column in made else _BUILDERS[field.column](timed, source) for field in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def damage_batch(
    source: str, number: int, damage: Damage, fields: Sequence[Field], schema: pa.Schema
) -> pa.RecordBatch:
    """Return one row that reports damaged bytes of a file."""
    what = {"end": damage.end, "reason": str(damage.error)}
    row = {"source": source, "number": number, "offset": damage.start, "damage": what}
    each = zip(fields, schema, strict=True)
    return pa.RecordBatch.from_arrays([pa.array([row.get(at.column)], type=to.type) for at, to in each], schema=schema)


def _source(timed: TimedBatch, source: str) -> pa.Array:
    return pa.repeat(pa.scalar(source, pa.string()), len(timed.batch))


def _number(timed: TimedBatch, _: str) -> pa.Array:
    return pa.repeat(pa.scalar(timed.batch.number, pa.int64()), len(timed.batch))


def _offset(timed: TimedBatch, _: str) -> pa.Array:
    batch = timed.batch
    # There is one more offset than records; Arrow uses only the first len(batch).
    offsets = pa.Array.from_buffers(pa.uint32(), len(batch), [None, pa.py_buffer(batch.offsets)])
    return pc.add(offsets.cast(pa.int64()), pa.scalar(batch.offset, pa.int64()))


def _sequence(timed: TimedBatch, _: str) -> pa.Array:
    batch = timed.batch
    if batch.first_sequence is None:
        return pa.nulls(len(batch), pa.int64())
    # The running sum of ones that starts at first - 1 is first, first + 1, ...
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(batch))
    return pc.cumulative_sum(ones, start=pa.scalar(batch.first_sequence - 1, pa.int64()))


def _time(timed: TimedBatch, _: str) -> pa.Array:
    count = len(timed.batch)
    if not timed.ends:
        return pa.nulls(count, _TIME)
    starts = (0, *timed.ends[:-1])
    # Repeating the bytes of each value is faster than having Arrow decode runs.
    values = b"".join(
        (time_ns // 1000).to_bytes(8, sys.byteorder) * (end - start)
        for start, end, time_ns in zip(starts, timed.ends, timed.times_ns, strict=True)
    )
    return pa.Array.from_buffers(_TIME, count, [None, pa.py_buffer(values)])


def _data(timed: TimedBatch, _: str) -> pa.Array:
    values, bounds = timed.batch.packed()
    return pa.Array.from_buffers(pa.binary(), len(timed.batch), [None, pa.py_buffer(bounds), pa.py_buffer(values)])


def _damage(timed: TimedBatch, _: str) -> pa.Array:
    return pa.nulls(len(timed.batch), DAMAGE_TYPE)


_TYPES = {
    "source": pa.string(),
    "number": pa.int64(),
    "offset": pa.int64(),
    "sequence": pa.int64(),
    "time": _TIME,
    "data": pa.binary(),
    "damage": DAMAGE_TYPE,
    "bad": pa.binary(),
    "error": pa.string(),
    **MESSAGE_TYPES,
}

_BUILDERS: dict[str, Callable[[TimedBatch, str], pa.Array]] = {
    "source": _source,
    "number": _number,
    "offset": _offset,
    "sequence": _sequence,
    "time": _time,
    "data": _data,
    "damage": _damage,
}
