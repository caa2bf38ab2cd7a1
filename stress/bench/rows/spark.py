"""Spark, local[2], over a gigabyte of records: reading, the daily extract, writing."""

from __future__ import annotations

from stress.bench.contestant import OURS, Contestant, Row, Unit
from stress.bench.peers import spark_process

ONE_FILE = f"{OURS}, one file"
TEXT, ROWS, PARQUET = "text", "Python rows", "Parquet"

_SOURCES = (
    (OURS, "four", 'A log of four files, with `schema("data binary")`.'),
    (f"{OURS}, all columns", "all", "The same log, with the columns number, offset, sequence, time and data."),
    (ONE_FILE, "one", "The same records in one file."),
    (ROWS, "rows", "A data source that yields a Python tuple for each record of the same log."),
    (TEXT, "text", "`spark.read.text` of the records as lines."),
    (PARQUET, "parquet", "The same records in uncompressed Parquet."),
    ("Parquet zstd", "parquet-zstd", "The same records in Parquet that is compressed with zstd."),
    ("binaryFile", "files", "Each file of the log as one value, not divided into records."),
)
TITLES = {"count": "count(*)", "length": "sum(length(data))", "crc": "max(crc32(data))"}

EXTRACT, WRITE, LATENCY = "spark-extract", "spark-write", "spark-latency"
_LATENCY_SECONDS_FACTOR = 8  # a record comes every 0.4 s


def read_name(query: str) -> str:
    """Return the name of the row of a query: `count`, `length`, `crc`."""
    return f"spark-{query}"


def rows() -> list[Row]:
    """Return all rows."""
    return [
        *(_row(read_name(query), f"Spark: {title}", "read", _SOURCES, query) for query, title in TITLES.items()),
        _row(
            EXTRACT,
            "Spark: writing all columns to Parquet with zstd",
            "extract",
            (
                (OURS, "log", "From a log of four files."),
                (PARQUET, "parquet", "From uncompressed Parquet with the same rows."),
            ),
        ),
        _row(
            WRITE,
            "Spark: writing records that are read from Parquet",
            "write",
            ((OURS, "binlog", "To a log, durably."), (PARQUET, "parquet", "To uncompressed Parquet.")),
        ),
        _latency(),
    ]


def _latency() -> Row:
    contestants = (
        (OURS, "foreach", (), "To a Python `foreach` sink, with the settings of `binlog.spark.LOW_LATENCY`."),
        (f"{OURS}, into a log", "binlog", (), "To another log, until a waiting reader has the row; the same settings."),
        (
            "Spark's own settings",
            "foreach",
            ("--default",),
            "To the `foreach` sink, with the settings of `binlog.spark.session`, without `LOW_LATENCY`.",
        ),
    )
    return Row(
        name=LATENCY,
        title="Spark: from an append to its row in a stream's sink, after 0.2 to 0.6 s without appends",
        unit=Unit.MICROSECONDS,
        seconds_factor=_LATENCY_SECONDS_FACTOR,
        contestants=tuple(
            Contestant(name=who, how=how, measure=spark_process.latency(sink, *more), missing=spark_process.missing)
            for who, sink, more, how in contestants
        ),
    )


def _row(name: str, title: str, job: str, contestants: tuple[tuple[str, str, str], ...], *more: str) -> Row:
    return Row(
        name=name,
        title=title,
        unit=Unit.MEGABYTES,
        contestants=tuple(
            Contestant(name=who, how=how, measure=spark_process.job(job, what, *more), missing=spark_process.missing)
            for who, what, how in contestants
        ),
    )
