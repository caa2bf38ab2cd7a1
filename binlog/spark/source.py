"""The data source `binlog`, as Spark sees it."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from binlog.spark.options import parse_options
from binlog.spark.reading import BatchReader
from binlog.spark.schema import DDL, chosen_fields


class BinlogDataSource(DataSource):
    """Reads a log: `spark.read.format("binlog").load(path)`.

    The options are in binlog.spark.options, the columns in binlog.spark.schema.  A query reads what the log held
    when it was planned.  PySpark 4.3 plans a frame once, when it is first used, and 4.0 each of its queries (seen): so
    load() again for what came since.
    Raises: ValueError for options.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Now, and not only when the query runs: load() is where a user looks for the mistake.
        self._parsed = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "binlog"

    def schema(self) -> str:
        """All columns, for a user who asks for none in particular."""
        return DDL

    def reader(self, schema: Any) -> BatchReader:
        """A reader of the columns in a StructType.  Raises: ValueError for one that the source cannot give."""
        return BatchReader(self._parsed, chosen_fields(schema))
