"""Build Arrow columns from the messages in records: their bodies, and the fields of their envelopes.

Each record becomes a Python object, because the length of an envelope is in the envelope.  So only a read with the
option `messages` uses this module, and only if one of these columns is asked for.

Facts relied on: a binary column is a buffer of bytes with int32 bounds, as in binlog/spark/columns.py.  PyArrow exports
a buffer as signed bytes, which are not equal to unsigned ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from binlog import Message
from binlog.spark.schema import Field

_TIME = pa.timestamp("us", "UTC")
_LONG_MAX = 2**63 - 1
_BODY = "data"

MESSAGE_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "headers": pa.map_(pa.string(), pa.field("value", pa.binary())),
    "produced_time": _TIME,
    "due_time": _TIME,
    "expiry_time": _TIME,
    "producer": pa.binary(),
    "producer_sequence": pa.int64(),
}


def message_types(fields: Sequence[Field], schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the columns to make of the messages, and their types; empty if none of them is asked for.

    schema: of the fields.  A parser's columns need the bodies, which it parses.
    """
    asked = {field.column: schema.field(field.name).type for field in fields}
    types = {name: kind for name, kind in asked.items() if name in MESSAGE_TYPES}
    return {**types, _BODY: pa.binary()} if asked.keys() & {_BODY, "parsed"} else types


def message_columns(records: pa.Array, types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """Return columns of the messages in an array of records, one row for each record.

    types: of the columns, as from `message_types`.
    A record without an envelope is the body of a message whose other columns are null.
    """
    _, bounds, values = records.buffers()
    data = memoryview(values).cast("B")
    ends = memoryview(bounds).cast("i")[: len(records) + 1]
    views = [data[start:end] for start, end in pairwise(ends)]
    messages = [_enveloped(view) for view in views]
    made = {
        name: pa.array([None if message is None else _VALUES[name](message) for message in messages], kind)
        for name, kind in types.items()
        if name != _BODY
    }
    if _BODY in types:
        bodies = [view if message is None else message.body for view, message in zip(views, messages, strict=True)]
        made[_BODY] = _joined(bodies) if any(messages) else records
    return made


def _enveloped(record: memoryview) -> Message | None:
    """Return the message in a record, or None if the record has no envelope."""
    message = Message.parse(record)
    return message if len(message.body) < len(record) else None


def _joined(values: Sequence[bytes | memoryview]) -> pa.Array:
    bounds = array("i", accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(values))])


def _microseconds(time_ns: int) -> int | None:
    return time_ns // 1000 if time_ns else None


def _producer(message: Message) -> bytes | None:
    return None if message.made_by is None else message.made_by.producer


def _producer_sequence(message: Message) -> int | None:
    """Return the number that the producer gave the message; None if Spark's LONG cannot hold it."""
    made_by = message.made_by
    return None if made_by is None or made_by.sequence > _LONG_MAX else made_by.sequence


_VALUES: dict[str, Callable[[Message], Any]] = {
    "key": lambda message: message.key,
    "headers": lambda message: list(message.headers.items()),
    "produced_time": lambda message: _microseconds(message.produced_ns),
    "due_time": lambda message: _microseconds(message.due_ns),
    "expiry_time": lambda message: _microseconds(message.expiry_ns),
    "producer": _producer,
    "producer_sequence": _producer_sequence,
}
