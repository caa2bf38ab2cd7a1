"""Records as typed columns: of JSON, or of a user's function.  What cannot be parsed is kept, with the reason.

Facts relied on (Spark 4.0 to 4.3):

- `from_json` takes the first object of a text, and passes over what follows it.  Within an array it does not: so the
  text is put into one, and an array that has not one element is bad.
- With a column for it, a text is given back that does not fit the schema in any place.
- `CAST(binary AS STRING)` takes any bytes; `try_validate_utf8` gives null for those that are not UTF-8.
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
    """Each record is one JSON object.  schema: its fields, as Spark's SQL writes them: `id BIGINT, name STRING`.

    A record is bad that is not UTF-8, is not one object, has a value that does not fit its field, or has none of the
    fields.  Fields that the schema does not have are dropped.
    """

    schema: str


@dataclass(frozen=True)
class Parser:
    """A function makes columns of records, see binlog.spark.log.record_parser.

    name: module:function.  schema: what it gives; its attribute `schema` unless told.
    """

    name: str
    schema: str | None = None


Parsing = Json | Parser


class Readable(Protocol):
    """Records that a reader of Spark's loads.  several: whether rows are to say of which log."""

    @property
    def several(self) -> bool: ...

    def load(self, reader: Any) -> Any: ...


def plain_frame(reader: Any, chosen: Readable, columns: Sequence[str]) -> Any:
    """The columns named, and nothing else is read.  Raises: ValueError for a name that there is not."""
    schema = _schema(columns)
    return chosen.load(reader.schema(schema))


def parsed_frame(reader: Any, chosen: Readable, parsing: Parsing) -> Any:
    """Where each record lies, `parsed`, and where that is null `bad`, the record, and `error`."""
    places = [*(("source",) if chosen.several else ()), *PLACE_COLUMNS]
    if isinstance(parsing, Json):
        return _from_json(plain_frame(reader, chosen, [*places, "data"]), places, parsing.schema)
    reader = reader.option("parser", parsing.name)
    if parsing.schema is not None:
        reader = reader.option("parserSchema", parsing.schema)
    return chosen.load(reader)


def good_columns(frame: Any) -> list[Any]:
    """The columns of `parsed_frame` for a record that could be parsed: where it lies, and its fields.

    A column of ours whose name a field has too goes by `log_` and its name.
    """
    from pyspark.sql.functions import col

    fields = {name.lower() for name in frame.schema["parsed"].dataType.names}
    places = [name for name in frame.columns if name in ("source", *PLACE_COLUMNS)]
    named = [col(name).alias(f"log_{name}") if name in fields else col(name) for name in places]
    return [*named, col("parsed.*")]


def as_text(frame: Any, column: str, base64: str) -> Any:
    """The frame with a binary column as text, and in a second one in base64 where it is not UTF-8."""
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
        raise ValueError(f"there is no column {', '.join(wrong)}; there are {', '.join(_TYPES)}")
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
