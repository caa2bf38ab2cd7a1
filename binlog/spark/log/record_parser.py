"""Apply a user's function that makes typed columns from records, in the task that reads them.

The function gets the records of a batch as a pyarrow array of binary.  It returns one row for each, as a RecordBatch,
a Table or a StructArray.  Records that it cannot parse are kept, as bytes with the reason, and do not affect the
others.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlog.spark.schema import fields_ddl

_ERROR_CHARACTERS_MAX = 500


class Parsed(NamedTuple):
    """Columns of equal length.

    rows: structs, null for bad records.  bad: the bytes of bad records, otherwise null.  error: the reason, otherwise
    null.
    """

    rows: pa.StructArray
    bad: pa.Array
    error: pa.Array


class RecordParser:
    """Applies a function to batches of records.

    function: takes an array of binary.  kind: the struct of its rows; other columns of its result are dropped.
    """

    def __init__(self, function: Callable[[pa.Array], Any], kind: pa.StructType) -> None:
        self._function = function
        self._kind = kind

    def parse(self, data: pa.Array) -> Parsed:
        """Parse every record, in order.

        A record is bad if the function raises for it, returns only nulls or a value that does not fit the column, or
        returns another number of rows.  If a batch fails, it is halved until the bad records are alone.
        Raises: TypeError if the function does not return rows, or lacks a column, which is no record's fault.
        """
        pieces: list[tuple[pa.StructArray, pa.Array]] = []
        waiting = [data] if len(data) else []
        while waiting:
            part = waiting.pop()
            try:
                pieces.append(self._rows(part))
            except _WrongShapeError as error:
                raise TypeError(str(error)) from None
            except Exception as error:  # noqa: BLE001 - whatever the user's function raises is about its records
                if len(part) > 1:
                    middle = len(part) // 2
                    waiting += [part[middle:], part[:middle]]
                else:
                    pieces.append(self._nothing(error))
        return self._together(pieces, data)

    def _rows(self, data: pa.Array) -> tuple[pa.StructArray, pa.Array]:
        """Return the rows of a batch, and the reason for each bad one."""
        columns = [_cast(column, field.type) for column, field in self._columns(self._function(data))]
        wrong = {len(column) for column in columns} - {len(data)}
        if wrong:
            raise ValueError(f"{len(data)} records became {wrong.pop()} rows")
        nothing = _all_null(columns)
        rows = pa.StructArray.from_arrays(columns, fields=list(self._kind), mask=nothing)
        if nothing is None:
            return rows, pa.nulls(len(data), pa.string())
        none = pa.scalar(None, pa.string())
        return rows, pc.if_else(nothing, pa.scalar("the parser returned only nulls"), none)

    def _columns(self, given: Any) -> list[tuple[pa.Array, pa.Field]]:
        found: dict[str, pa.Array] = {}
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        if isinstance(given, pa.StructArray):
            found = dict(zip((field.name for field in given.type), given.flatten(), strict=True))
        elif isinstance(given, pa.RecordBatch | pa.Table):
            found = {name: given.column(name) for name in given.schema.names}
        else:
            text = f"returned a value of type {type(given).__name__}, not a RecordBatch, Table or StructArray"
            raise _WrongShapeError(f"binlog: the parser {text}")
        missing = [field.name for field in self._kind if field.name not in found]
        if missing:
            raise _WrongShapeError(f"binlog: the parser returned no column {', '.join(map(repr, missing))}")
        return [(found[field.name], field) for field in self._kind]

    def _nothing(self, error: Exception) -> tuple[pa.StructArray, pa.Array]:
        text = f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS_MAX]
        readable = text.encode("utf-8", "backslashreplace").decode()  # Arrow rejects lone surrogates
        return pa.nulls(1, self._kind), pa.array([readable], pa.string())

    def _together(self, pieces: list[tuple[pa.StructArray, pa.Array]], data: pa.Array) -> Parsed:
        if len(pieces) == 1:
            [(rows, error)] = pieces
        else:
            rows = pa.concat_arrays([piece[0] for piece in pieces]) if pieces else pa.nulls(0, self._kind)
            error = pa.concat_arrays([piece[1] for piece in pieces]) if pieces else pa.nulls(0, pa.string())
        if error.null_count == len(data):
            return Parsed(rows, pa.nulls(len(data), pa.binary()), error)
        return Parsed(rows, pc.if_else(error.is_valid(), data, pa.scalar(None, pa.binary())), error)


class _WrongShapeError(Exception):
    """The function's result cannot be rows, whatever the records are."""


def _cast(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if column.type.equals(kind) else column.cast(kind)


def _all_null(columns: list[pa.Array]) -> pa.Array | None:
    """Return which rows are null in every column, or None if there are none."""
    found: pa.Array | None = None
    for column in columns:
        if column.null_count == 0:
            return None
        nulls = column.is_null()
        found = nulls if found is None else pc.and_(found, nulls)
    return found if found is not None and found.true_count else None


def load_parser(name: str) -> Callable[[pa.Array], Any]:
    """Import the function that `module:function` names.  Raises: ValueError."""
    module, _, path = name.partition(":")
    if not module or not path:
        raise ValueError(f"binlog: a parser must be module:function, not {name!r}")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"binlog: cannot import the parser {name}: {error}") from error
    if not callable(found):
        raise ValueError(f"binlog: the parser {name} is not a function")
    return found  # type: ignore[no-any-return]


def schema_of(name: str) -> str:
    """Return the fields in a parser's attribute `schema`, in Spark's SQL.

    The attribute is such a text or a pyarrow.Schema.  Raises: ValueError if there is none.
    """
    schema = getattr(load_parser(name), "schema", None)
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, pa.Schema):
        text = "has no attribute 'schema'; add it, or set the option parserSchema"
        raise ValueError(f"binlog: the parser {name} {text}")
    from pyspark.sql.pandas.types import from_arrow_schema

    # Like all our times, those without a zone are UTC.
    return fields_ddl(from_arrow_schema(schema, prefer_timestamp_ntz=False))


def arrow_type(kind: Any) -> pa.DataType:
    """Return the Arrow type in which Spark passes values of this type."""
    from pyspark.sql.pandas.types import to_arrow_type

    # Before PySpark 4.3 the parameter had another name, and UTC was the default.
    named = "timezone" in inspect.signature(to_arrow_type).parameters
    return to_arrow_type(kind, timezone="UTC") if named else to_arrow_type(kind)
