"""The data source `binlog` as Spark sees it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa  # noqa: F401 - whoever lacks it is told so at once, though it is needed later
from pyspark.sql.datasource import DataSource

from binlog.spark.log.options import ENGINE
from binlog.spark.worker import tune_worker
from binlog.spark.writing.write_options import WriteOptions, chosen_column, parse_write_options

# Loaded only in the process in which Spark pushes filters down to a reader.
_PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"


class Engine(Protocol):
    """The reading side of one of binlog's engines."""

    def schema(self) -> str:
        """Return all columns."""

    def reader(self, schema: Any, *, filtering: bool) -> Any:
        """Return a reader of the columns in a StructType.  filtering: whether Spark may push filters down to it."""

    def stream_reader(self, schema: Any) -> Any:
        """Return a stream reader of the columns in a StructType."""


def _log_engine(given: Mapping[str, str]) -> Engine:
    from binlog.spark.log.engine import LogEngine

    return LogEngine(given)


def _commit_log_engine(given: Mapping[str, str]) -> Engine:
    from binlog.spark.commitlog.engine import CommitLogEngine

    return CommitLogEngine(given)


def _journal_engine(given: Mapping[str, str]) -> Engine:
    from binlog.spark.journal.engine import JournalEngine

    return JournalEngine(given)


_LOG = "log"
# Each is imported on use: Spark asks in several processes, one after the other, and waits for all their imports.
_ENGINES: dict[str, Callable[[Mapping[str, str]], Engine]] = {
    _LOG: _log_engine,
    "commitlog": _commit_log_engine,
    "journal": _journal_engine,
}
# Why Spark does not write to these engines.
_NOT_WRITTEN = {
    "commitlog": "only the process that has a commit log open can write to it, not Spark",
    "journal": "only the process that has a journal open can write to it, not Spark",
}


class BinlogDataSource(DataSource):
    """The source of `spark.read.format("binlog").load(path)` and `spark.readStream`.

    For a log, binlog.spark.log.options lists the options and binlog.spark.schema the columns; binlog.spark.commitlog
    and binlog.spark.journal have those of the other engines.  A batch query reads what the log held when the query was
    planned.  PySpark 4.3 plans a frame once, when it is first used; 4.0 plans each of its queries (seen).  Call load()
    again to read later records.
    Raises: ValueError for wrong options.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "binlog"

    def schema(self) -> str:
        """Return all columns, for a read without a schema."""
        # Called by load(), so that a wrong option fails there, and not later in the query.
        return self._engine().schema()

    def reader(self, schema: Any) -> Any:
        """Return a reader of the columns in a StructType.  Raises: ValueError for an unknown column."""
        return self._engine().reader(schema, filtering=_PUSHDOWN in sys.modules)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """Return a stream reader.  Raises: ValueError, also if PySpark is older than 4.2, which added read limits."""
        engine = self._engine()
        try:
            return engine.stream_reader(schema)
        except ImportError as error:
            raise ValueError(f"binlog: following a log needs PySpark 4.2 or later ({error})") from error

    def _engine(self) -> Engine:
        """Return the engine to read with.  Raises: ValueError for wrong options."""
        tune_worker()
        given = {name: value for name, value in self._given.items() if name.lower() != ENGINE}
        return _ENGINES[self._engine_name()](given)

    def _engine_name(self) -> str:
        [text] = [value for name, value in self._given.items() if name.lower() == ENGINE] or [_LOG]
        if text.strip().lower() not in _ENGINES:
            raise ValueError(f"binlog: {ENGINE} must be one of {', '.join(_ENGINES)}, not {text!r}")
        return text.strip().lower()

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Return a writer that appends rows.  Raises: ValueError, also for mode("overwrite")."""
        from binlog.spark.writing.writing import BatchWriter

        return BatchWriter(*self._write(schema, overwrite=overwrite))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's
        """Return a writer that appends a stream's rows exactly once.  Raises: as `writer`; needs PySpark 4.1."""
        try:
            from binlog.spark.writing.writing import StreamWriter
        except ImportError as error:
            raise ValueError(f"binlog: writing a stream needs PySpark 4.1 or later ({error})") from error
        return StreamWriter(*self._write(schema, overwrite=overwrite))

    def _write(self, schema: Any, *, overwrite: bool) -> tuple[WriteOptions, str]:
        tune_worker()
        engine = self._engine_name()
        if engine in _NOT_WRITTEN:
            raise ValueError(f"binlog: {_NOT_WRITTEN[engine]}")
        given = {name: value for name, value in self._given.items() if name.lower() != ENGINE}
        if overwrite:
            raise ValueError('binlog: a log can only be appended to: use mode("append")')
        return parse_write_options(given), chosen_column(schema)
