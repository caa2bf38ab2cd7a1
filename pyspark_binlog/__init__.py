"""Let Spark find the data source `binlog` automatically, so that `spark.read.format("binlog")` needs no registration.

Facts relied on (PySpark 4.0 to 4.3, `pyspark/sql/worker/lookup_data_sources.py`):

- When Spark first meets an unknown data source, it imports every top-level module on the path whose name starts with
  `pyspark_`, and uses the class `DefaultSource` of each that has one.
- If any of these modules raises, Spark finds no Python data source at all, ours or others', and reports only that.

So this module imports nothing before `DefaultSource` is accessed, and accessing it never raises.
"""

from __future__ import annotations

import sys
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from binlog.spark.source import BinlogDataSource
    except Exception as problem:  # noqa: BLE001 - whatever is wrong with us must not take others' sources away
        return _unusable(
            f"binlog cannot be used here: {type(problem).__name__}: {problem}.  This Spark process runs "
            f"{sys.executable}; if the driver runs another Python (its sys.executable), set PYSPARK_PYTHON to that "
            "one before Spark starts"
        )
    return BinlogDataSource


def _unusable(reason: str) -> Any:
    """Return a source that reports on use why it cannot be used; otherwise Spark would say that it does not exist."""
    from pyspark.sql.datasource import DataSource

    class Unusable(DataSource):
        @classmethod
        def name(cls) -> str:
            return "binlog"

        def __init__(self, options: dict[str, str]) -> None:
            raise ImportError(reason)

    return Unusable
