"""A simple data source for comparison: a Python row for each record, in some ten lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from binlog import Reader, Ref, stat

NAME = "binlog_rows"


class _File(InputPartition):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _RowReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        return [_File(file.number) for file in stat(self._path).files]

    def read(self, partition: Any) -> Iterator[tuple[bytes]]:
        with Reader(self._path, Ref(partition.number, 256)) as reader:
            for entry in reader:
                if entry.ref.number != partition.number:
                    return
                yield (entry.data,)


class RowSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return NAME

    def schema(self) -> str:
        """Return the schema, which has only the record."""
        return "data binary"

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader with one task a file."""
        return _RowReader(self.options["path"])
