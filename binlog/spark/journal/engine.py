"""The engine `journal` of the data source: each row is a record as it lies in a journal's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binlog.spark.journal.options import parse_journal_options
from binlog.spark.journal.reading import BatchReader, FilteringReader
from binlog.spark.journal.schema import chosen, offered
from binlog.spark.schema import ddl


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
