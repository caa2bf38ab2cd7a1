"""Build Arrow columns from a commit log's messages, without a Python object for any message.

Facts relied on: see binlog/spark/columns.py.  A list or map array without a validity buffer has no nulls: a list with
equal bounds is empty.
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
# The message columns that a row's column is made from, if they have another name.  All messages are of one queue.
_MADE_OF = {"topic": (), "queue_id": (), "tag": ("properties",), "keys": ("properties",)}
# In microseconds; a year less at either end than Python's limits, because Python may use any time zone.
_TIMES = tuple(int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000 for year in (2, 9999))
_TAG, _KEYS, _KEY_END = "TAGS", "KEYS", " "  # RocketMQ's names


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the schema of the batches that this module makes."""
    return schema_of_types(fields, _TYPES)


def needed(fields: Sequence[Field]) -> set[str]:
    """Return the message columns that these fields are made from."""
    return {name for field in fields for name in _MADE_OF.get(field.column, (field.column,))}


def record_batch(found: MessageColumns, part: QueueRange, fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
    """Return the fields of some messages.  part: of the messages' queue.  schema: `arrow_schema(fields)`."""
    messages = _Messages(found, part)
    arrays = [
        _BUILDERS[field.column](messages, field.column, to.type) for field, to in zip(fields, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Messages:
    """The messages from which the columns of one batch are made."""

    def __init__(self, found: MessageColumns, part: QueueRange) -> None:
        self.count = found.count
        self.columns = found.columns
        self.part = part

    def binary(self, name: str) -> pa.Array:
        """Return a column of bytes."""
        return _binary(self.columns[name], self.count)

    @cached_property
    def properties(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return the bounds of each message's properties, and the names and values of all of them."""
        bounds, names, values = self.columns["properties"]
        offsets = pa.Array.from_buffers(pa.int32(), self.count + 1, [None, pa.py_buffer(bounds)])
        total = offsets[self.count].as_py()
        return offsets, _text(_binary(names, total)), _text(_binary(values, total))

    def property(self, name: str) -> pa.Array:
        """Return each message's value of a property, or null."""
        return pc.map_lookup(pa.MapArray.from_arrays(*self.properties), pa.scalar(name), "last")


def _binary(packed: tuple[bytes, bytes], count: int) -> pa.Array:
    bounds, values = packed
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(values)])


def _text(values: pa.Array) -> pa.Array:
    """Decode bytes as UTF-8; invalid bytes become the replacement character."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string())


def _of_queue(messages: _Messages, name: str, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(getattr(messages.part, name), kind), messages.count)


def _number(messages: _Messages, name: str, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, messages.count, [None, pa.py_buffer(messages.columns[name])])


def _time(messages: _Messages, name: str, kind: pa.DataType) -> pa.Array:
    """Return times; those outside of Python's limits, which a producer may have written, are null."""
    times = _number(messages, name, pa.int64())
    if all(_TIMES[0] <= time.as_py() < _TIMES[1] for time in pc.min_max(times).values()):
        return times.view(kind)
    valid = pc.and_(pc.greater_equal(times, _TIMES[0]), pc.less(times, _TIMES[1]))
    return pc.if_else(valid, times, None).view(kind)


def _body(messages: _Messages, name: str, _: pa.DataType) -> pa.Array:
    return messages.binary(name)


def _message_id(messages: _Messages, name: str, kind: pa.DataType) -> pa.Array:
    return messages.binary(name).cast(kind)


def _host(messages: _Messages, name: str, kind: pa.DataType) -> pa.Array:
    """Return hosts as text.  There are few, so each is formatted once."""
    hosts = messages.binary(name).dictionary_encode()
    texts = pa.array([str(unpack_host(host)) for host in hosts.dictionary.to_pylist()], kind)
    return texts.take(hosts.indices)


def _properties(messages: _Messages, _: str, kind: pa.DataType) -> pa.Array:
    return pa.MapArray.from_arrays(*messages.properties, type=kind)


def _tag(messages: _Messages, _: str, __: pa.DataType) -> pa.Array:
    return messages.property(_TAG)


def _keys(messages: _Messages, _: str, kind: pa.DataType) -> pa.Array:
    texts = messages.property(_KEYS)
    lists = pc.split_pattern(texts, _KEY_END)
    if pc.any(pc.equal(lists.values, "")).as_py():
        split = [[key for key in text.split(_KEY_END) if key] if text else [] for text in texts.to_pylist()]
        return pa.array(split, kind)
    return pa.ListArray.from_arrays(lists.offsets, lists.values, type=kind)


_BUILDERS: dict[str, Callable[[_Messages, str, pa.DataType], pa.Array]] = {
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
