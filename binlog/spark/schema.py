"""The columns of the data source, and which of them a read asks for.

Spark tells a Python data source nothing of the columns that a query uses.  A schema of the user's own does: with
`spark.read.schema("data binary")` nothing but `data` is built and sent.

Types as Spark's SQL writes them, with names quoted, as `simpleString()` does not.
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
    Column("number", "bigint", True, "the number of the file that the record lies in"),
    Column("offset", "bigint", True, "bytes from that file's start to the record"),
    Column("sequence", "bigint", False, "records before it in the log; null where the file does not tell"),
    Column("time", "timestamp", False, "when it was in the file, by the index; null where that does not tell"),
    Column("data", "binary", True, "the record, exactly as it was appended"),
)

SOURCE = Column("source", "string", True, "the directory of the log")
DAMAGE = Column(
    "damage",
    "struct<end:bigint,reason:string>",
    False,
    "null in a record's row; where bytes are damaged, the offset at which that ends, and what is wrong",
)

BAD = Column("bad", "binary", False, "the record, where the parser could make nothing of it; null elsewhere")
ERROR = Column("error", "string", False, "why the parser could make nothing of it; null elsewhere")


def parsed(fields: str) -> Column:
    """What a parser gives.  fields: of the struct, as Spark's SQL writes them."""
    return Column("parsed", f"struct<{fields}>", False, "what the parser made of the record; else null")


def columns(*, several: bool, permissive: bool, parsed_fields: str | None = None) -> tuple[Column, ...]:
    """Those that a read gives that asks for none in particular.

    several: of more than one log.  permissive: damage becomes rows, in which a record's columns but `number` and
    `offset` are null.  parsed_fields: what a parser gives in place of the data, where there is one.
    """
    offered = COLUMNS if not permissive else tuple(column._replace(known=column.name != "data") for column in COLUMNS)
    if parsed_fields is not None:
        offered = (*offered[:-1], parsed(parsed_fields), BAD, ERROR)
    return (*((SOURCE,) if several else ()), *offered, *((DAMAGE,) if permissive else ()))


def ddl(offered: Sequence[Column]) -> str:
    """The columns as Spark's SQL writes a schema."""
    return ", ".join(f"{column.name} {column.spark_type}" for column in offered)


class Field(NamedTuple):
    """A column as a read asks for it: under the user's spelling of its name.

    kind: Spark's type, where it has parts: as the user says whether those may be null.
    """

    column: str
    name: str
    nullable: bool
    kind: Any = None


def chosen_fields(
    schema: Any, *, several: bool = False, permissive: bool = False, parsing: bool = False
) -> tuple[Field, ...]:
    """The fields of a StructType, which is a user's or that of `ddl`.

    Raises: ValueError where the source cannot give what is asked for.
    """
    offered = columns(several=several, permissive=permissive)
    if not several:
        offered = (SOURCE, *offered)
    if parsing:
        offered = (*offered, parsed("..."), BAD, ERROR)
    fields = chosen_among(schema, offered)
    names = {field.column for field in fields}
    if permissive and DAMAGE.name not in names:
        text = "binlog: with mode=PERMISSIVE the schema has to have a column"
        raise ValueError(f"{text} {ddl([DAMAGE])}, so that damage is seen")
    if ("parsed" in names) != (BAD.name in names) or (ERROR.name in names and BAD.name not in names):
        raise ValueError(f"binlog: the columns parsed and {ddl([BAD])} go together, so that no record is lost")
    return fields


def chosen_among(schema: Any, offered: Sequence[Column]) -> tuple[Field, ...]:
    """The fields of a StructType, each of which is one of the columns offered.  Raises: ValueError."""
    by_name = {column.name: column for column in offered}
    fields = tuple(_chosen_field(field, by_name) for field in schema.fields)
    if not fields:
        raise ValueError(f"binlog: the schema has no columns; there are {ddl(offered)}")
    if len({field.column for field in fields}) < len(fields):
        raise ValueError("binlog: the schema names a column twice")
    return fields


def _chosen_field(field: Any, by_name: dict[str, Column]) -> Field:
    column = by_name.get(field.name.lower())
    if column is None:
        raise ValueError(f"binlog: there is no column {field.name!r}; there are {ddl(list(by_name.values()))}")
    asked = field.dataType.simpleString()
    if column.name == "parsed" and asked.startswith("struct<"):
        if not field.nullable or not all(each.nullable for each in field.dataType.fields):
            raise ValueError("binlog: what a parser gives cannot be NOT NULL")
        return Field(column.name, field.name, True, field.dataType)
    if asked != column.spark_type:
        raise ValueError(f"binlog: the column {column.name!r} is of type {column.spark_type}, not {asked}")
    if not (field.nullable or column.known):
        raise ValueError(f"binlog: the column {column.name!r} cannot be NOT NULL: {column.meaning}")
    kind = field.dataType if column.spark_type.startswith(("array<", "map<")) else None
    return Field(column.name, field.name, field.nullable, kind)


def fields_ddl(struct: Any) -> str:
    """The fields of a StructType: `id`: bigint, `name`: string."""
    return ", ".join(f"{_quoted(field.name)}: {type_ddl(field.dataType)}" for field in struct.fields)


def type_ddl(kind: Any) -> str:
    """A type.  That of what is null wherever it was looked at is a string."""
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
