"""Lets Spark find the data source `binlog` by itself: `spark.read.format("binlog")`, with nothing registered before.

Facts relied on (PySpark 4.0 to 4.3, `pyspark/sql/worker/lookup_data_sources.py`):

- At the first look for a data source that it does not know, Spark imports every top-level module on the path whose name
  starts with `pyspark_`, and takes the class `DefaultSource` out of each that has one.
- Where any of these modules raises, Spark finds no Python data source at all, ours or others', and says only that.

So nothing is imported here before `DefaultSource` is asked for, and asking for it never raises.
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
            f"binlog cannot be used here: {type(problem).__name__}: {problem}.  This process of Spark's runs "
            f"{sys.executable}; if the driver runs another Python (its sys.executable), set PYSPARK_PYTHON to that "
            "before Spark starts"
        )
    return BinlogDataSource


def _unusable(reason: str) -> Any:
    """Make a source that says on use why it cannot be used, where Spark would say that there is none."""
    from pyspark.sql.datasource import DataSource

    class Unusable(DataSource):
        @classmethod
        def name(cls) -> str:
            return "binlog"

        def __init__(self, options: dict[str, str]) -> None:
            raise ImportError(reason)

    return Unusable
