"""The jobs: functions of a session and the dataset that return a result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stress.bench.spark.dataset import Dataset
from stress.bench.spark.rows_source import NAME as ROWS

Frame = Callable[[Any, str], Any]

_DATA = "data binary"

SOURCES: dict[str, tuple[Callable[[Dataset], Path], Frame]] = {
    "four": (lambda data: data.log, lambda spark, path: spark.read.format("binlog").schema(_DATA).load(path)),
    "all": (lambda data: data.log, lambda spark, path: spark.read.format("binlog").load(path)),
    "one": (lambda data: data.one, lambda spark, path: spark.read.format("binlog").schema(_DATA).load(path)),
    "rows": (lambda data: data.log, lambda spark, path: spark.read.format(ROWS).load(path)),
    "text": (lambda data: data.text, lambda spark, path: spark.read.text(path).withColumnRenamed("value", "data")),
    "parquet": (lambda data: data.parquet, lambda spark, path: spark.read.parquet(path).select("data")),
    "parquet-zstd": (lambda data: data.parquet_zstd, lambda spark, path: spark.read.parquet(path).select("data")),
    "files": (
        lambda data: data.log,
        lambda spark, path: (
            spark.read.format("binaryFile").option("pathGlobFilter", "*.dat").load(path)
            .withColumnRenamed("content", "data")
        ),
    ),
}  # fmt: skip
"""By name: the form of the data, and how it is read."""

QUERIES = {"count": "count(*)", "length": "sum(length(data))", "crc": "max(crc32(data))"}


# docs/spark.md, for small records.  Only while they are written: the settings would affect a source of Python rows too.
_WRITE_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
}


def form(data: Dataset, job: str, argument: str) -> Path:
    """Return the input of a job.  argument: the first one."""
    if job == "read":
        return SOURCES[argument][0](data)
    return data.log if (job, argument) == ("extract", "log") else data.parquet


def warm(spark: Any, data: Dataset, place: Path) -> None:
    """Run every job before it is measured, so that the cost of Java's and Python's first time is not measured."""
    for source in SOURCES:
        for query in QUERIES:
            # Values of a quarter of a gigabyte take long, and only their count is compared.
            if source != "files" or query == "count":
                read(spark, data, source, query)
    for what in ("log", "parquet"):
        remove(extract(spark, data, what, place))
    for target in ("binlog", "parquet"):
        remove(write(spark, data, target, place))


def read(spark: Any, data: Dataset, source: str, query: str) -> int:
    """Return the answer to a query."""
    form, frame = SOURCES[source]
    return int(frame(spark, str(form(data))).selectExpr(QUERIES[query]).first()[0])


def extract(spark: Any, data: Dataset, source: str, place: Path) -> Path:
    """Write all columns into Parquet with zstd, from the log or from Parquet; return the output, for removal."""
    form, path = ("binlog", data.log) if source == "log" else ("parquet", data.parquet)
    target = place / "extract"
    spark.read.format(form).load(str(path)).write.parquet(str(target), compression="zstd")
    return target


def write(spark: Any, data: Dataset, form: str, place: Path) -> Path:
    """Write the records from Parquet into a log or into uncompressed Parquet; return the output, for removal."""
    target = place / "written"
    options = {"compression": "none"} if form == "parquet" else {}
    frame = spark.read.parquet(str(data.parquet)).select("data")
    before = {name: spark.conf.get(name) for name in _WRITE_SETTINGS}
    _set(spark, _WRITE_SETTINGS)
    try:
        frame.write.format(form).mode("append").options(**options).save(str(target))
    finally:
        _set(spark, before)
    return target


def _set(spark: Any, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)


def remove(path: Path) -> int:
    """Remove the output of a job; return its size."""
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    shutil.rmtree(path)
    return size
