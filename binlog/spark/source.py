"""The data source `binlog`, as Spark sees it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa  # noqa: F401 - whoever lacks it is told so at once, though it is needed later
from pyspark.sql.datasource import DataSource

from binlog.spark.log.options import ENGINE
from binlog.spark.worker import tune_worker
from binlog.spark.writing.write_options import WriteOptions, chosen_column, parse_write_options

# What the one process has loaded that asks a reader for its filters.
_PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"


class Engine(Protocol):
    """One of binlog's engines, as it is read."""

    def schema(self) -> str:
        """All columns that it has."""

    def reader(self, schema: Any, *, filtering: bool) -> Any:
        """A reader of the columns in a StructType.  filtering: whether it may be asked for its filters."""

    def stream_reader(self, schema: Any) -> Any:
        """The same for a stream."""


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
# Each is imported where it is asked for: Spark asks in one process after the other, and waits for what each imports.
_ENGINES: dict[str, Callable[[Mapping[str, str]], Engine]] = {
    _LOG: _log_engine,
    "commitlog": _commit_log_engine,
    "journal": _journal_engine,
}
# Of what Spark does not write, and why.
_NOT_WRITTEN = {
    "commitlog": "a commit log is written by the one process that has its store open, not by Spark",
    "journal": "a journal is written by the one process that has it open, not by Spark",
}


class BinlogDataSource(DataSource):
    """Reads logs: `spark.read.format("binlog").load(path)`, and `spark.readStream`; with another engine, what that has.

    The options are in binlog.spark.log.options, the columns in binlog.spark.schema; those of commit logs in
    binlog.spark.commitlog, of journals in binlog.spark.journal.  A batch query reads what the log held when it was
    planned.  PySpark 4.3 plans a frame once, when it is first used, and 4.0 each of its queries (seen): so
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
        return self._engine().schema()

    def reader(self, schema: Any) -> Any:
        """A reader of the columns in a StructType.  Raises: ValueError for one that the source cannot give."""
        return self._engine().reader(schema, filtering=_PUSHDOWN in sys.modules)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """The same for a stream.  Raises: ValueError, also where PySpark is older than 4.2, the first with limits."""
        engine = self._engine()
        try:
            return engine.stream_reader(schema)
        except ImportError as error:
            raise ValueError(f"binlog: following a log takes PySpark 4.2 or later ({error})") from error

    def _engine(self) -> Engine:
        """What reads.  Raises: ValueError for options."""
        tune_worker()
        given = {name: value for name, value in self._given.items() if name.lower() != ENGINE}
        return _ENGINES[self._engine_name()](given)

    def _engine_name(self) -> str:
        [text] = [value for name, value in self._given.items() if name.lower() == ENGINE] or [_LOG]
        if text.strip().lower() not in _ENGINES:
            raise ValueError(f"binlog: {ENGINE} is one of {', '.join(_ENGINES)}, not {text!r}")
        return text.strip().lower()

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Appends rows.  Raises: ValueError for an option or column, and for mode("overwrite")."""
        from binlog.spark.writing.writing import BatchWriter

        return BatchWriter(*self._write(schema, overwrite=overwrite))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's
        """Appends a stream's rows, exactly once.  Raises: as `writer`; and where PySpark is older than 4.1."""
        try:
            from binlog.spark.writing.writing import StreamWriter
        except ImportError as error:
            raise ValueError(f"binlog: writing a stream takes PySpark 4.1 or later ({error})") from error
        return StreamWriter(*self._write(schema, overwrite=overwrite))

    def _write(self, schema: Any, *, overwrite: bool) -> tuple[WriteOptions, str]:
        tune_worker()
        engine = self._engine_name()
        if engine in _NOT_WRITTEN:
            raise ValueError(f"binlog: {_NOT_WRITTEN[engine]}")
        given = {name: value for name, value in self._given.items() if name.lower() != ENGINE}
        if overwrite:
            raise ValueError('binlog: a log is only ever appended to: use mode("append")')
        return parse_write_options(given), chosen_column(schema)
