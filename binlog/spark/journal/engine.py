"""The engine `journal` of the data source, and its columns: each row is a record in a journal's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binlog.spark.journal.options import parse_journal_options
from binlog.spark.journal.reading import BatchReader, FilteringReader
from binlog.spark.schema import DAMAGE, Column, Field, chosen_among, ddl

COLUMNS = (
    Column("file", "string", True, "the name of the record's file"),
    Column("file_id", "bigint", True, "the id of that file's present use; ids increase over time"),
    Column("offset", "bigint", True, "bytes from that file's start to the record"),
    Column("kind", "string", True, "the kind of record: add, update, ... rollback"),
    Column("id", "bigint", False, "the record that it adds, updates or deletes; null if it ends a transaction"),
    Column("transaction", "bigint", False, "the transaction that it belongs to or ends; null outside of transactions"),
    Column("transaction_state", "string", False, "the transaction's state; null outside of transactions"),
    Column("user_type", "int", False, "the user's type of the body; null if it has no body"),
    Column("data", "binary", False, "the body, or the extra data of a prepare; null if it has none"),
    Column("state", "string", False, "the state of the record that it adds; null if it adds nothing"),
    Column("record_bytes", "bigint", True, "its size in the file"),
)
_ALWAYS = ("file", "offset")  # also in rows for damage


def offered(*, permissive: bool) -> tuple[Column, ...]:
    """Return the columns of a read.  permissive: damage becomes rows, in which most columns are null."""
    if not permissive:
        return COLUMNS
    return (*(column._replace(known=column.name in _ALWAYS) for column in COLUMNS), DAMAGE)


def chosen(schema: Any, *, permissive: bool) -> tuple[Field, ...]:
    """Return the fields of a StructType.  Raises: ValueError for an unknown column."""
    fields = chosen_among(schema, offered(permissive=permissive))
    if permissive and DAMAGE.name not in {field.column for field in fields}:
        text = "binlog: with mode=PERMISSIVE the schema must have a column"
        raise ValueError(f"{text} {ddl([DAMAGE])}, which reports damage")
    return fields


class JournalEngine:
    """The engine that reads journals.  Raises, when it is made: ValueError for wrong options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse_journal_options(options)

    def schema(self) -> str:
        """Return all columns, for a read without a schema."""
        return ddl(offered(permissive=self._options.permissive))

    def reader(self, schema: Any, *, filtering: bool) -> BatchReader:
        """Return a reader of the columns in a StructType.  Raises: ValueError for an unknown column."""
        kind = FilteringReader if filtering else BatchReader
        return kind(self._options, chosen(schema, permissive=self._options.permissive))

    def stream_reader(self, schema: Any) -> Any:
        """Raise ValueError: a journal cannot be read as a stream."""
        text = "later records change the state of earlier ones, and files are reused"
        raise ValueError(f"binlog: a journal cannot be followed as a stream, because {text}; read it in batch")
