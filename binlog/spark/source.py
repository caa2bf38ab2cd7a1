"""The data source `binlog`, as Spark sees it."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql.datasource import DataSource

from binlog.spark.options import ReadOptions, is_url, parse_options
from binlog.spark.reading import BatchReader, FilteringReader
from binlog.spark.record_parser import schema_of
from binlog.spark.remote import shown
from binlog.spark.schema import Field, chosen_fields, columns, ddl
from binlog.spark.write_options import WriteOptions, chosen_column, parse_write_options

# What the one process has loaded that asks a reader for its filters.
_PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"


class BinlogDataSource(DataSource):
    """Reads logs: `spark.read.format("binlog").load(path)`, and `spark.readStream`.

    The options are in binlog.spark.options, the columns in binlog.spark.schema.  A batch query reads what the log held
    when it was planned.  PySpark 4.3 plans a frame once, when it is first used, and 4.0 each of its queries (seen): so
    load() again for what came since.
    Raises: ValueError for options.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "binlog"

    def schema(self) -> str:
        """All columns, for a user who asks for none in particular."""
        # Asked for by load(): that is where a user looks for the mistake in an option, not where the query runs.
        parsed = parse_options(self._given)
        fields = parsed.parser_schema
        if fields is None and parsed.parser is not None:
            fields = schema_of(parsed.parser)
        return ddl(columns(several=parsed.several, permissive=parsed.permissive, parsed_fields=fields))

    def reader(self, schema: Any) -> BatchReader:
        """A reader of the columns in a StructType.  Raises: ValueError for one that the source cannot give."""
        kind = FilteringReader if _PUSHDOWN in sys.modules else BatchReader
        return kind(*self._read(schema))

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """The same for a stream.  Raises: ValueError, also where PySpark is older than 4.2, the first with limits."""
        try:
            from binlog.spark.following import StreamReader
        except ImportError as error:
            raise ValueError(f"binlog: following a log takes PySpark 4.2 or later ({error})") from error
        options, fields = self._read(schema)
        remote = [path for path in options.paths if is_url(path)]
        if remote:
            text = (
                f"binlog: {shown(remote[0])!r} cannot be followed: in a remote file system there are closed files only"
            )
            raise ValueError(f"{text}; a stream reads a directory of this machine, or one that is mounted here")
        return StreamReader(options, fields)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Appends rows.  Raises: ValueError for an option or column, and for mode("overwrite")."""
        from binlog.spark.writing import BatchWriter

        return BatchWriter(*self._write(schema, overwrite=overwrite))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's
        """Appends a stream's rows, exactly once.  Raises: as `writer`; and where PySpark is older than 4.1."""
        try:
            from binlog.spark.sink import StreamWriter
        except ImportError as error:
            raise ValueError(f"binlog: writing a stream takes PySpark 4.1 or later ({error})") from error
        return StreamWriter(*self._write(schema, overwrite=overwrite))

    def _read(self, schema: Any) -> tuple[ReadOptions, tuple[Field, ...]]:
        parsed = parse_options(self._given)
        parsing = parsed.parser is not None
        fields = chosen_fields(schema, several=parsed.several, permissive=parsed.permissive, parsing=parsing)
        return parsed, fields

    def _write(self, schema: Any, *, overwrite: bool) -> tuple[WriteOptions, str]:
        if overwrite:
            raise ValueError('binlog: a log is only ever appended to: use mode("append")')
        return parse_write_options(self._given), chosen_column(schema)
