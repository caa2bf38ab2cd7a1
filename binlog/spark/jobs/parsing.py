"""Parse records into typed columns, as JSON or with a user's function, and keep those that cannot be parsed.

Facts relied on (Spark 4.0 to 4.3):

- `from_json` parses the first object of a text and ignores the rest, but not inside an array.  So the text is put into
  an array, and it is bad if the array does not have exactly one element.
- With a column for corrupt records, a text is returned there if any part of it does not fit the schema.
- `CAST(binary AS STRING)` accepts any bytes; `try_validate_utf8` returns null for those that are not UTF-8.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

PLACE_COLUMNS = ("number", "offset", "sequence", "time")
_TYPES = {"source": "string", "number": "bigint", "offset": "bigint", "sequence": "bigint", "time": "timestamp"}
_TYPES["data"] = "binary"

_NOT_TEXT = "not UTF-8"
_NOT_JSON = "not one JSON object that fits the schema"


@dataclass(frozen=True)
class Json:
    """Parse each record as one JSON object.  schema: its fields, in Spark's SQL: `id BIGINT, name STRING`.

    A record is bad if it is not UTF-8, is not exactly one object, has a value that does not fit its field, or has none
    of the fields.  Other fields are dropped.
    """

    schema: str


@dataclass(frozen=True)
class Parser:
    """Parse records with a function; see binlog.spark.log.record_parser.

    name: module:function.  schema: of its result; by default, its attribute `schema`.
    """

    name: str
    schema: str | None = None


Parsing = Json | Parser


class Readable(Protocol):
    """Logs that a Spark reader can load.  several: whether rows must name their log."""

    @property
    def several(self) -> bool: ...

    def load(self, reader: Any) -> Any: ...


def plain_frame(reader: Any, chosen: Readable, columns: Sequence[str]) -> Any:
    """Return a frame of these columns, and read nothing else.  Raises: ValueError for an unknown column."""
    schema = _schema(columns)
    return chosen.load(reader.schema(schema))


def parsed_frame(reader: Any, chosen: Readable, parsing: Parsing) -> Any:
    """Return each record's position, `parsed` and, if that is null, the record as `bad` and the reason as `error`."""
    places = [*(("source",) if chosen.several else ()), *PLACE_COLUMNS]
    if isinstance(parsing, Json):
        return _from_json(plain_frame(reader, chosen, [*places, "data"]), places, parsing.schema)
    reader = reader.option("parser", parsing.name)
    if parsing.schema is not None:
        reader = reader.option("parserSchema", parsing.schema)
    return chosen.load(reader)


def good_columns(frame: Any) -> list[Any]:
    """Return the columns of a record that could be parsed: its position and its fields.

    A position column with the name of a field gets the prefix `log_`.
    """
    from pyspark.sql.functions import col

    fields = {name.lower() for name in frame.schema["parsed"].dataType.names}
    places = [name for name in frame.columns if name in ("source", *PLACE_COLUMNS)]
    named = [col(name).alias(f"log_{name}") if name in fields else col(name) for name in places]
    return [*named, col("parsed.*")]


def as_text(frame: Any, column: str, base64: str) -> Any:
    """Replace a binary column with text, and add a column with its base64 if it is not UTF-8."""
    from pyspark.sql.functions import base64 as to_base64
    from pyspark.sql.functions import col, expr, when

    text = expr(f"try_validate_utf8(CAST(`{column}` AS STRING))")
    other = when(text.isNull(), to_base64(col(column)))
    named = "text" if column == "data" else column
    columns = [text.alias(named) if name == column else col(f"`{name}`") for name in frame.columns]
    at = frame.columns.index(column) + 1
    return frame.select(*columns[:at], other.alias(base64), *columns[at:])


def _schema(columns: Sequence[str]) -> str:
    wrong = [name for name in columns if name not in _TYPES]
    if wrong or not columns:
        raise ValueError(f"unknown column {', '.join(wrong)}; the columns are {', '.join(_TYPES)}")
    return ", ".join(f"{name} {_TYPES[name]}" for name in columns)


def _from_json(frame: Any, places: Iterable[str], schema: str) -> Any:
    from pyspark.sql.functions import coalesce, col, concat, expr, from_json, get, lit, size, when

    text = expr("try_validate_utf8(CAST(data AS STRING))")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt"}
    read = from_json(
        concat(lit('{"records":['), text, lit("]}")), f"records array<struct<{schema}>>, corrupt string", options
    )
    found = frame.withColumn("json", read).withColumn("parsed", get(col("json.records"), lit(0)))
    names = found.schema["parsed"].dataType.names
    anything = functools.reduce(lambda one, other: one | other, (_field(name).isNotNull() for name in names))
    one = col("json.corrupt").isNull() & (size(col("json.records")) == 1) & anything
    good = coalesce(one, lit(False))
    why = when(text.isNull(), lit(_NOT_TEXT)).otherwise(lit(_NOT_JSON))
    return found.select(
        *places,
        when(good, col("parsed")).alias("parsed"),
        when(~good, col("data")).alias("bad"),
        when(~good, why).alias("error"),
    )


def _field(name: str) -> Any:
    from pyspark.sql.functions import col

    return col("parsed").getField(name)
