"""The engine `log` of the data source, which it has unless told otherwise: each row is a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binlog.spark.log.options import ReadOptions, is_url, parse_options
from binlog.spark.log.reading import BatchReader, FilteringReader
from binlog.spark.log.record_parser import schema_of
from binlog.spark.remote.remote import redacted
from binlog.spark.schema import Field, chosen_fields, columns, ddl


class LogEngine:
    """Reads logs, as an Engine of the data source.  Raises, in making one: ValueError for options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options: ReadOptions = parse_options(options)

    def schema(self) -> str:
        """All columns, for a user who asks for none in particular."""
        options = self._options
        fields = options.parser_schema
        if fields is None and options.parser is not None:
            fields = schema_of(options.parser)
        return ddl(columns(several=options.several, permissive=options.permissive, parsed_fields=fields))

    def reader(self, schema: Any, *, filtering: bool) -> BatchReader:
        """A reader of the columns in a StructType.  Raises: ValueError for one that the source cannot give."""
        kind = FilteringReader if filtering else BatchReader
        return kind(self._options, self._fields(schema))

    def stream_reader(self, schema: Any) -> Any:
        """The same for a stream.  Raises: ValueError; ImportError where PySpark is too old."""
        from binlog.spark.log.following import StreamReader

        fields = self._fields(schema)
        remote = [path for path in self._options.paths if is_url(path)]
        if remote:
            text = f"binlog: cannot follow {redacted(remote[0])!r}: a remote file system has closed files only"
            raise ValueError(f"{text}; a stream reads a local or mounted directory")
        return StreamReader(self._options, fields)

    def _fields(self, schema: Any) -> tuple[Field, ...]:
        options = self._options
        parsing = options.parser is not None
        return chosen_fields(schema, several=options.several, permissive=options.permissive, parsing=parsing)
