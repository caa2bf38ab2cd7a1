"""Infer the schema of JSON records."""

from __future__ import annotations

from typing import Any

from binlog.spark.jobs.parsing import plain_frame
from binlog.spark.jobs.progress import Report, run_with_progress
from binlog.spark.jobs.selection import Chosen
from binlog.spark.schema import fields_ddl

RECORDS = 10_000
"""How many records are read by default."""

_CORRUPT = "_corrupt_record"


def infer_schema(spark: Any, chosen: Chosen, records: int | None = RECORDS, *, report: Report | None = None) -> str:
    """Return the fields of the first records, in Spark's SQL.  records: how many to read; None for all.

    Records that are not JSON objects are ignored.
    Blocks while a Spark job reads them.
    Raises: ValueError if none of them is an object.
    """
    frame = plain_frame(spark.read.format("binlog"), chosen, ["data"])
    if records is not None:
        frame = frame.limit(records)
    texts = frame.selectExpr("try_validate_utf8(CAST(data AS STRING)) AS value").where("value IS NOT NULL")
    found = run_with_progress(spark, lambda: _read_json(spark, texts).schema, report)
    found.fields = [field for field in found.fields if field.name != _CORRUPT]
    if not found.fields:
        raise ValueError("cannot infer a schema: none of the records is a JSON object with fields")
    return fields_ddl(found)


def _read_json(spark: Any, texts: Any) -> Any:
    reader = spark.read.option("columnNameOfCorruptRecord", _CORRUPT)
    try:
        return reader.json(texts)
    except Exception as error:
        # Only PySpark 4.3 and later take a frame.
        if type(error).__name__ != "PySparkTypeError":
            raise
        return reader.json(texts.rdd.map(_only))


def _only(row: Any) -> Any:
    return row[0]
