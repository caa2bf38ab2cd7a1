"""The columns of the data source, and the fields that a read asks for.

Spark does not tell a Python data source which columns a query uses.  A user's schema does: with
`spark.read.schema("data binary")`, only `data` is built and sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Column(NamedTuple):
    """A column that the source offers.  known: whether it always has a value."""

    name: str
    spark_type: str
    known: bool
    meaning: str


COLUMNS = (
    Column("number", "bigint", True, "the number of the record's file"),
    Column("offset", "bigint", True, "bytes from that file's start to the record"),
    Column("sequence", "bigint", False, "records before it in the log; null if the file does not say"),
    Column("time", "timestamp", False, "the time of the append, from the index; null if the index does not say"),
    Column("data", "binary", True, "the record, exactly as it was appended"),
)

# With the option `messages`.  In the row of a record without an envelope they are all null.
MESSAGE_COLUMNS = (
    Column("key", "binary", False, "the key of the message; null if it has none"),
    Column("headers", "map<string,binary>", False, "the headers of the message"),
    Column("produced_time", "timestamp", False, "when the message was made, by the clock of its producer"),
    Column("due_time", "timestamp", False, "when a group may deliver the message; null if at once"),
    Column("expiry_time", "timestamp", False, "when the message expires; null if never"),
    Column("producer", "binary", False, "the first 16 bytes of the SHA-256 of the id of its idempotent producer"),
    Column("producer_sequence", "bigint", False, "the number that this producer gave the message, from 0 on"),
)

SOURCE = Column("source", "string", True, "the directory of the log")
DAMAGE = Column(
    "damage",
    "struct<end:bigint,reason:string>",
    False,
    "null in a record's row; in a row for damaged bytes, the offset at which they end, and the reason",
)

BAD = Column("bad", "binary", False, "the record, if the parser failed; otherwise null")
ERROR = Column("error", "string", False, "why the parser failed; otherwise null")


def parsed(fields: str) -> Column:
    """Return the column of a parser's result.  fields: of the struct, in Spark's SQL."""
    return Column("parsed", f"struct<{fields}>", False, "the parser's result for the record; null if it failed")


def columns(
    *, several: bool, permissive: bool, parsed_fields: str | None = None, messages: bool = False
) -> tuple[Column, ...]:
    """Return the columns of a read without a schema.

    several: of more than one log.  permissive: damage becomes rows, in which all columns of a record but `number` and
    `offset` are null.  parsed_fields: the result of a parser, which replaces the data.  messages: with the fields of
    envelopes, before the data.
    """
    offered = COLUMNS if not permissive else tuple(column._replace(known=column.name != "data") for column in COLUMNS)
    if messages:
        offered = (*offered[:-1], *MESSAGE_COLUMNS, offered[-1])
    if parsed_fields is not None:
        offered = (*offered[:-1], parsed(parsed_fields), BAD, ERROR)
    return (*((SOURCE,) if several else ()), *offered, *((DAMAGE,) if permissive else ()))


def ddl(offered: Sequence[Column]) -> str:
    """Format the columns as a schema in Spark's SQL."""
    return ", ".join(f"{column.name} {column.spark_type}" for column in offered)


class Field(NamedTuple):
    """A column that a read asks for, under the user's spelling of its name.

    kind: Spark's type, for a type with elements: the user decides whether those may be null.
    """

    column: str
    name: str
    nullable: bool
    kind: Any = None


def chosen_fields(
    schema: Any, *, several: bool = False, permissive: bool = False, parsing: bool = False, messages: bool = False
) -> tuple[Field, ...]:
    """Return the fields of a StructType, which comes from a user or from `ddl`.

    Raises: ValueError if the source does not have them.
    """
    offered = columns(several=several, permissive=permissive, messages=messages)
    if not several:
        offered = (SOURCE, *offered)
    if parsing:
        offered = (*offered, parsed("..."), BAD, ERROR)
    fields = chosen_among(schema, offered)
    names = {field.column for field in fields}
    if permissive and DAMAGE.name not in names:
        text = "binlog: with mode=PERMISSIVE the schema must have a column"
        raise ValueError(f"{text} {ddl([DAMAGE])}, which reports damage")
    if ("parsed" in names) != (BAD.name in names) or (ERROR.name in names and BAD.name not in names):
        raise ValueError(f"binlog: the column parsed needs {ddl([BAD])}, so that no record is lost")
    return fields


def chosen_among(schema: Any, offered: Sequence[Column]) -> tuple[Field, ...]:
    """Return the fields of a StructType, each of which must be a column offered.  Raises: ValueError."""
    by_name = {column.name: column for column in offered}
    fields = tuple(_chosen_field(field, by_name) for field in schema.fields)
    if not fields:
        raise ValueError(f"binlog: the schema has no columns; the columns are {ddl(offered)}")
    if len({field.column for field in fields}) < len(fields):
        raise ValueError("binlog: the schema has a column twice")
    return fields


def _chosen_field(field: Any, by_name: dict[str, Column]) -> Field:
    column = by_name.get(field.name.lower())
    if column is None:
        raise ValueError(f"binlog: unknown column {field.name!r}; the columns are {ddl(list(by_name.values()))}")
    asked = field.dataType.simpleString()
    if column.name == "parsed" and asked.startswith("struct<"):
        if not field.nullable or not all(each.nullable for each in field.dataType.fields):
            raise ValueError("binlog: the fields of a parser's result cannot be NOT NULL")
        return Field(column.name, field.name, True, field.dataType)
    if asked != column.spark_type:
        raise ValueError(f"binlog: the type of column {column.name!r} is {column.spark_type}, not {asked}")
    if not (field.nullable or column.known):
        raise ValueError(f"binlog: the column {column.name!r} cannot be NOT NULL: {column.meaning}")
    kind = field.dataType if column.spark_type.startswith(("array<", "map<")) else None
    return Field(column.name, field.name, field.nullable, kind)


def fields_ddl(struct: Any) -> str:
    """Format the fields of a StructType, with quoted names, unlike `simpleString()`: `id`: bigint, `name`: string."""
    return ", ".join(f"{_quoted(field.name)}: {type_ddl(field.dataType)}" for field in struct.fields)


def type_ddl(kind: Any) -> str:
    """Format a type.  The type of a column that is always null becomes string."""
    name = kind.typeName()
    if name == "struct":
        return f"struct<{fields_ddl(kind)}>"
    if name == "array":
        return f"array<{type_ddl(kind.elementType)}>"
    if name == "map":
        return f"map<{type_ddl(kind.keyType)}, {type_ddl(kind.valueType)}>"
    return "string" if name == "void" else str(kind.simpleString())


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
