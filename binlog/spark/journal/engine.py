"""The engine `journal` of the data source: each row is a record as it lies in a journal's file.

The columns of a journal's records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binlog.spark.journal.options import parse_journal_options
from binlog.spark.journal.reading import BatchReader, FilteringReader
from binlog.spark.schema import DAMAGE, Column, Field, chosen_among, ddl

COLUMNS = (
    Column("file", "string", True, "the name of the file that the record lies in"),
    Column("file_id", "bigint", True, "the id of that file's present use; a larger one came later"),
    Column("offset", "bigint", True, "bytes from that file's start to the record"),
    Column("kind", "string", True, "what it does: ADD, UPDATE, ... ROLLBACK"),
    Column("id", "bigint", False, "the record that it adds, updates or deletes; null where it ends a transaction"),
    Column("transaction", "bigint", False, "the transaction that it is of, or ends; null outside of transactions"),
    Column("transaction_state", "string", False, "what became of that; null outside of transactions"),
    Column("user_type", "int", False, "what its user says of the body; null where it has none"),
    Column("data", "binary", False, "the body, or the extra data of a PREPARE; null where it has none"),
    Column("state", "string", False, "what became of what it adds; null where it adds nothing"),
    Column("record_bytes", "bigint", True, "what it takes in the file"),
)
_ALWAYS = ("file", "offset")  # also of damage


def offered(*, permissive: bool) -> tuple[Column, ...]:
    """Those that a read gives.  permissive: damage becomes rows, in which most are null."""
    if not permissive:
        return COLUMNS
    return (*(column._replace(known=column.name in _ALWAYS) for column in COLUMNS), DAMAGE)


def chosen(schema: Any, *, permissive: bool) -> tuple[Field, ...]:
    """The fields of a StructType.  Raises: ValueError where the source cannot give what is asked for."""
    fields = chosen_among(schema, offered(permissive=permissive))
    if permissive and DAMAGE.name not in {field.column for field in fields}:
        text = "binlog: with mode=PERMISSIVE the schema has to have a column"
        raise ValueError(f"{text} {ddl([DAMAGE])}, so that damage is seen")
    return fields


class JournalEngine:
    """Reads a journal, as an Engine of the data source.  Raises, in making one: ValueError for options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse_journal_options(options)

    def schema(self) -> str:
        """All columns, for a user who asks for none in particular."""
        return ddl(offered(permissive=self._options.permissive))

    def reader(self, schema: Any, *, filtering: bool) -> BatchReader:
        """A reader of the columns in a StructType.  Raises: ValueError for one that is not there."""
        kind = FilteringReader if filtering else BatchReader
        return kind(self._options, chosen(schema, permissive=self._options.permissive))

    def stream_reader(self, schema: Any) -> Any:
        """Raises: ValueError."""
        text = "what a record of it is changes with those behind it, and its files are used again"
        raise ValueError(f"binlog: a journal cannot be followed as a stream, for {text}; read it in batch")
