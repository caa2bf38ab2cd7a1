"""The engine `commitlog` of the data source: each row is a message of a commit log's store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binlog.spark.commitlog.options import parse_store_options
from binlog.spark.commitlog.reading import BatchReader, FilteringReader
from binlog.spark.commitlog.schema import COLUMNS
from binlog.spark.schema import chosen_among, ddl


class CommitLogEngine:
    """Reads a store, as an Engine of the data source.  Raises, in making one: ValueError for options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse_store_options(options)

    def schema(self) -> str:
        """All columns, for a user who asks for none in particular."""
        return ddl(COLUMNS)

    def reader(self, schema: Any, *, filtering: bool) -> BatchReader:
        """A reader of the columns in a StructType.  Raises: ValueError for one that is not there."""
        kind = FilteringReader if filtering else BatchReader
        return kind(self._options, chosen_among(schema, COLUMNS))

    def stream_reader(self, schema: Any) -> Any:
        """The same for a stream.  Raises: ValueError; ImportError where PySpark is too old."""
        from binlog.spark.commitlog.following import StreamReader

        return StreamReader(self._options, chosen_among(schema, COLUMNS))
