"""The default engine of the data source, `log`: each row is a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binlog.moving.remote_directory import redacted
from binlog.spark.log.options import ReadOptions, is_url, parse_options
from binlog.spark.log.reading import BatchReader, FilteringReader
from binlog.spark.log.record_parser import schema_of
from binlog.spark.schema import Field, chosen_fields, columns, ddl


class LogEngine:
    """The engine that reads logs.  Raises, when it is made: ValueError for wrong options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options: ReadOptions = parse_options(options)

    def schema(self) -> str:
        """Return all columns, for a read without a schema."""
        options = self._options
        fields = options.parser_schema
        if fields is None and options.parser is not None:
            fields = schema_of(options.parser)
        offered = columns(
            several=options.several, permissive=options.permissive, parsed_fields=fields, messages=options.messages
        )
        return ddl(offered)

    def reader(self, schema: Any, *, filtering: bool) -> BatchReader:
        """Return a reader of the columns in a StructType.  Raises: ValueError for an unknown column."""
        kind = FilteringReader if filtering else BatchReader
        return kind(self._options, self._fields(schema))

    def stream_reader(self, schema: Any) -> Any:
        """Return a stream reader.  Raises: ValueError; ImportError if PySpark is too old."""
        from binlog.spark.log.following import StreamReader

        fields = self._fields(schema)
        remote = [path for path in self._options.paths if is_url(path)]
        if remote:
            text = f"binlog: cannot follow {redacted(remote[0])!r}: a remote file system has closed files only"
            raise ValueError(f"{text}; a stream reads a local or mounted directory")
        return StreamReader(self._options, fields)

    def _fields(self, schema: Any) -> tuple[Field, ...]:
        options = self._options
        return chosen_fields(
            schema,
            several=options.several,
            permissive=options.permissive,
            parsing=options.parser is not None,
            messages=options.messages,
        )
