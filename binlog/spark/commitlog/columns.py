"""Arrow columns of messages, built without a Python object for each message.

This relies on the facts in binlog/spark/columns.py, and on one more: a list or map in Arrow that has no validity buffer
is never null, so equal bounds mean that it is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from binlog.commitlog import MessageColumns, unpack_host
from binlog.spark.columns import schema_of_types
from binlog.spark.commitlog.partitions import QueueRange
from binlog.spark.schema import Field

_TIME = pa.timestamp("us", "UTC")
_TYPES = {
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "offset": pa.int64(),
    "message_id": pa.string(),
    "body": pa.binary(),
    "tag": pa.string(),
    "keys": pa.list_(pa.field("element", pa.string())),
    "properties": pa.map_(pa.string(), pa.field("value", pa.string())),
    "flag": pa.int32(),
    "system_flag": pa.int32(),
    "born_time": _TIME,
    "born_host": pa.string(),
    "store_time": _TIME,
    "store_host": pa.string(),
    "reconsume_count": pa.int32(),
    "prepared_offset": pa.int64(),
    "message_bytes": pa.int32(),
}
# The columns of MessageColumns that a column is built from, if they differ; all messages of a batch are of one queue.
_SOURCES = {"topic": (), "queue_id": (), "tag": ("properties",), "keys": ("properties",)}
# In microseconds, and a year inside of Python's limits, because Python may convert them to any time zone.
_TIMES = tuple(int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000 for year in (2, 9999))
_TAG, _KEYS, _KEY_END = "TAGS", "KEYS", " "  # as RocketMQ names them


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the schema of the batches."""
    return schema_of_types(fields, _TYPES)


def required_columns(fields: Sequence[Field]) -> set[str]:
    """Return the columns of MessageColumns that these columns are built from."""
    return {name for field in fields for name in _SOURCES.get(field.column, (field.column,))}


def record_batch(found: MessageColumns, part: QueueRange, fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
    """Build the batch.  part: the range of the queue with these messages.  schema: `arrow_schema(fields)`."""
    batch = _BatchColumns(found, part)
    arrays = [_BUILDERS[field.column](batch, field.column, to.type) for field, to in zip(fields, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _BatchColumns:
    """The messages of one batch, from which columns are built."""

    def __init__(self, found: MessageColumns, part: QueueRange) -> None:
        self.count = found.count
        self.columns = found.columns
        self.part = part

    def binary(self, name: str) -> pa.Array:
        """Return a column of bytes."""
        return _binary(self.columns[name], self.count)

    @cached_property
    def properties(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return the bounds of each message's properties, all names, and all values."""
        bounds, names, values = self.columns["properties"]
        offsets = pa.Array.from_buffers(pa.int32(), self.count + 1, [None, pa.py_buffer(bounds)])
        total = offsets[self.count].as_py()
        return offsets, _text(_binary(names, total)), _text(_binary(values, total))

    def property(self, name: str) -> pa.Array:
        """Return the value of a property in each message; null for none."""
        return pc.map_lookup(pa.MapArray.from_arrays(*self.properties), pa.scalar(name), "last")


def _binary(packed: tuple[bytes, bytes], count: int) -> pa.Array:
    bounds, values = packed
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(values)])


def _text(values: pa.Array) -> pa.Array:
    """Convert bytes to text; bytes that are not UTF-8 become replacement characters."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string())


def _of_queue(batch: _BatchColumns, name: str, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(getattr(batch.part, name), kind), batch.count)


def _number(batch: _BatchColumns, name: str, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, batch.count, [None, pa.py_buffer(batch.columns[name])])


def _time(batch: _BatchColumns, name: str, kind: pa.DataType) -> pa.Array:
    """Convert times; null for times that Python cannot represent, because a client may write any number."""
    times = _number(batch, name, pa.int64())
    if all(_TIMES[0] <= time.as_py() < _TIMES[1] for time in pc.min_max(times).values()):
        return times.view(kind)
    present = pc.and_(pc.greater_equal(times, _TIMES[0]), pc.less(times, _TIMES[1]))
    return pc.if_else(present, times, None).view(kind)


def _body(batch: _BatchColumns, name: str, _: pa.DataType) -> pa.Array:
    return batch.binary(name)


def _message_id(batch: _BatchColumns, name: str, kind: pa.DataType) -> pa.Array:
    return batch.binary(name).cast(kind)


def _host(batch: _BatchColumns, name: str, kind: pa.DataType) -> pa.Array:
    """Convert hosts.  There are few different ones, so each is converted once."""
    hosts = batch.binary(name).dictionary_encode()
    texts = pa.array([str(unpack_host(host)) for host in hosts.dictionary.to_pylist()], kind)
    return texts.take(hosts.indices)


def _properties(batch: _BatchColumns, _: str, kind: pa.DataType) -> pa.Array:
    return pa.MapArray.from_arrays(*batch.properties, type=kind)


def _tag(batch: _BatchColumns, _: str, __: pa.DataType) -> pa.Array:
    return batch.property(_TAG)


def _keys(batch: _BatchColumns, _: str, kind: pa.DataType) -> pa.Array:
    texts = batch.property(_KEYS)
    lists = pc.split_pattern(texts, _KEY_END)
    if pc.any(pc.equal(lists.values, "")).as_py():
        split = [[key for key in text.split(_KEY_END) if key] if text else [] for text in texts.to_pylist()]
        return pa.array(split, kind)
    return pa.ListArray.from_arrays(lists.offsets, lists.values, type=kind)


_BUILDERS: dict[str, Callable[[_BatchColumns, str, pa.DataType], pa.Array]] = {
    **dict.fromkeys(_TYPES, _number),
    "topic": _of_queue,
    "queue_id": _of_queue,
    "message_id": _message_id,
    "born_time": _time,
    "store_time": _time,
    "body": _body,
    "tag": _tag,
    "keys": _keys,
    "properties": _properties,
    "born_host": _host,
    "store_host": _host,
}
