"""The columns of the data source, and which of them a read asks for.

Spark tells a Python data source nothing of the columns that a query uses.  A schema of the user's own does: with
`spark.read.schema("data binary")` nothing but `data` is built and sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Column(NamedTuple):
    """A column that the source offers.  known: whether it always has a value."""

    name: str
    spark_type: str
    known: bool
    meaning: str


COLUMNS = (
    Column("number", "bigint", True, "the number of the file that the record lies in"),
    Column("offset", "bigint", True, "bytes from that file's start to the record"),
    Column("sequence", "bigint", False, "records before it in the log; null where the file does not tell"),
    Column("data", "binary", True, "the record, exactly as it was appended"),
)

DDL = ", ".join(f"{column.name} {column.spark_type}" for column in COLUMNS)

_BY_NAME = {column.name: column for column in COLUMNS}


class Field(NamedTuple):
    """A column as a read asks for it: under the user's spelling of its name."""

    column: str
    name: str
    nullable: bool


def chosen_fields(schema: Any) -> tuple[Field, ...]:
    """The fields of a StructType, which is a user's or that of DDL.

    Raises: ValueError where the source cannot give what is asked for.
    """
    fields = tuple(_chosen_field(field) for field in schema.fields)
    if not fields:
        raise ValueError(f"binlog: the schema has no columns; there are {DDL}")
    if len({field.column for field in fields}) < len(fields):
        raise ValueError("binlog: the schema names a column twice")
    return fields


def _chosen_field(field: Any) -> Field:
    column = _BY_NAME.get(field.name.lower())
    if column is None:
        raise ValueError(f"binlog: there is no column {field.name!r}; there are {DDL}")
    asked = field.dataType.simpleString()
    if asked != column.spark_type:
        raise ValueError(f"binlog: the column {column.name!r} is of type {column.spark_type}, not {asked}")
    if not (field.nullable or column.known):
        raise ValueError(f"binlog: the column {column.name!r} cannot be NOT NULL: {column.meaning}")
    return Field(column.name, field.name, field.nullable)
