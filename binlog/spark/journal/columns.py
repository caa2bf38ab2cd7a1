"""Build Arrow columns from a journal's records, without a Python object for any record.

Facts relied on: see binlog/spark/columns.py.  The result array of a computation starts at the first bit of its buffers;
a slice of another array does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlog.errors import FullError
from binlog.journal import FilePart, JournalColumns
from binlog.spark.columns import DAMAGE_TYPE, schema_of_types
from binlog.spark.journal.partitions import BYTES, KINDS_WITH, NAMES, NUMBERS, Damage, WantedRecords, transaction_states
from binlog.spark.schema import Field

_BATCH_BYTES = 1 << 20
_TYPES = {
    "file": pa.string(),
    "file_id": pa.int64(),
    "offset": pa.int64(),
    "kind": pa.string(),
    "id": pa.int64(),
    "transaction": pa.int64(),
    "transaction_state": pa.string(),
    "user_type": pa.int32(),
    "data": pa.binary(),
    "state": pa.string(),
    "record_bytes": pa.int64(),
    "damage": DAMAGE_TYPE,
}
# The columns of JournalColumns.
_FOUND_TYPES = {
    "offset": pa.int64(),
    "record_bytes": pa.int64(),
    "tx_id": pa.int64(),
    "record_id": pa.int64(),
    "body_offset": pa.int64(),
    "body_bytes": pa.int32(),
    "kind": pa.uint8(),
    "user_type": pa.uint8(),
    "state": pa.uint8(),
}
# The column of JournalColumns that a row's column is made from, if it has another name.
_MADE_OF = {"id": "record_id", "transaction": "tx_id"}
_INT64 = (-(2**63), 2**63 - 1)


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the schema of the batches that this module makes."""
    return schema_of_types(fields, _TYPES)


def record_batches(
    found: JournalColumns,
    part: FilePart,
    wanted: WantedRecords,
    fields: Sequence[Field],
    schema: pa.Schema,
    record_bytes_max: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the records that may be wanted, in batches with about a megabyte of bodies.

    schema: `arrow_schema(fields)`.
    Raises: FullError for a record over the limit.
    """
    rows = _wanted(found, wanted)
    size = pc.max(rows.column("record_bytes")).as_py() or 0
    if size > record_bytes_max:
        text = f"{part.path}: a record of {size} bytes; the limit is {record_bytes_max}"
        raise FullError(text, limit=record_bytes_max, size=size)
    offsets, sizes = _numbers(rows, "body_offset"), _numbers(rows, "body_bytes")
    with_bodies = any(field.column == "data" for field in fields)
    first = 0
    while first < rows.num_rows:
        count, bodies = rows.num_rows - first, None
        if with_bodies:
            count, *bodies = found.bodies(offsets, sizes, first, _BATCH_BYTES)
        records = _Records(rows.slice(first, count), part, bodies)
        each = zip(fields, schema, strict=True)
        yield pa.RecordBatch.from_arrays(
            [_BUILDERS[at.column](records, at.column, to.type) for at, to in each], schema=schema
        )
        first += count


def damage_batch(damage: Sequence[Damage], fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows that report damage."""
    rows = [{**each._asdict(), "damage": {"end": each.end, "reason": each.reason}} for each in damage]
    made = [pa.array([row.get(at.column) for row in rows], to.type) for at, to in zip(fields, schema, strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=schema)


class _Records(NamedTuple):
    """The records of one batch, from which its columns are made.  bodies: bounds and bytes, if they are asked for."""

    rows: pa.RecordBatch
    part: FilePart
    bodies: list[bytes] | None

    def source_column(self, column: str) -> pa.Array:
        """Return the values that a row's column is made from."""
        return self.rows.column(_MADE_OF.get(column, column))

    def has_value(self, column: str) -> pa.Array:
        """Return which rows have a value in the column."""
        return _KINDS_WITH[column].take(self.rows.column("kind"))


def _table(flags: bytes) -> pa.Array:
    return pa.Array.from_buffers(pa.uint8(), len(flags), [None, pa.py_buffer(flags)]).cast(pa.bool_())


def _wanted(found: JournalColumns, wanted: WantedRecords) -> pa.RecordBatch:
    """Return the columns of the records that may be wanted."""
    columns = {
        name: pa.Array.from_buffers(kind, found.count, [None, pa.py_buffer(found.columns[name])])
        for name, kind in _FOUND_TYPES.items()
    }
    rows = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    for column in filter(wanted.has_bound, (*NAMES, *NUMBERS)):
        values = rows.column(_MADE_OF.get(column, column))
        if column in NAMES:
            rows = rows.filter(_table(wanted.named(column)).take(values))
        else:
            rows = rows.filter(_between(values, *wanted.of(column)))
    return rows


def _between(values: pa.Array, lowest: int | None, highest: int | None) -> pa.Array:
    """Return which numbers are within bounds, which may exceed 64 bits."""
    low = _INT64[0] if lowest is None else lowest
    high = _INT64[1] if highest is None else highest
    if low > _INT64[1] or high < _INT64[0]:
        return pa.repeat(pa.scalar(False), len(values))
    bounds = (pa.scalar(max(low, _INT64[0]), pa.int64()), pa.scalar(min(high, _INT64[1]), pa.int64()))
    return pc.and_(pc.greater_equal(values, bounds[0]), pc.less_equal(values, bounds[1]))


def _numbers(rows: pa.RecordBatch, name: str) -> memoryview:
    """Return exactly the numbers of a column; Arrow's buffers may be longer."""
    values = rows.column(name)
    width = values.type.bit_width // 8
    start = values.offset * width
    return memoryview(values.buffers()[1])[start : start + len(values) * width]


def _of_file(records: _Records, column: str, kind: pa.DataType) -> pa.Array:
    value = records.part.name if column == "file" else records.part.header.file_id
    return pa.repeat(pa.scalar(value, kind), records.rows.num_rows)


def _as_found(records: _Records, column: str, _: pa.DataType) -> pa.Array:
    return records.source_column(column)


def _of_some_kinds(records: _Records, column: str, kind: pa.DataType) -> pa.Array:
    return pc.if_else(records.has_value(column), records.source_column(column).cast(kind), pa.scalar(None, kind))


def _named(records: _Records, column: str, kind: pa.DataType) -> pa.Array:
    return _NAME_ARRAYS[column].take(records.source_column(column))


def _transaction_state(records: _Records, _: str, __: pa.DataType) -> pa.Array:
    both = pc.add(
        pc.multiply(records.source_column("kind").cast(pa.int32()), BYTES),
        records.source_column("state").cast(pa.int32()),
    )
    return _TRANSACTION_STATES.take(both)


def _data(records: _Records, column: str, kind: pa.DataType) -> pa.Array:
    assert records.bodies is not None
    bounds, values = map(pa.py_buffer, records.bodies)
    there = records.has_value(column).buffers()[1]
    return pa.Array.from_buffers(kind, records.rows.num_rows, [there, bounds, values])


def _no_damage(records: _Records, _: str, kind: pa.DataType) -> pa.Array:
    return pa.nulls(records.rows.num_rows, kind)


_KINDS_WITH = {column: _table(bytes(kind in kinds for kind in range(BYTES))) for column, kinds in KINDS_WITH.items()}
_NAME_ARRAYS = {column: pa.array(names, pa.string()) for column, names in NAMES.items()}
_TRANSACTION_STATES = pa.array([name for kind in range(BYTES) for name in transaction_states(kind)], pa.string())
_BUILDERS: dict[str, Callable[[_Records, str, pa.DataType], pa.Array]] = {
    "file": _of_file,
    "file_id": _of_file,
    "offset": _as_found,
    "kind": _named,
    "id": _of_some_kinds,
    "transaction": _of_some_kinds,
    "transaction_state": _transaction_state,
    "user_type": _of_some_kinds,
    "data": _data,
    "state": _named,
    "record_bytes": _as_found,
    "damage": _no_damage,
}
