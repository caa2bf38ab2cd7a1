"""The schema of JSON records, found by reading some of them, or all."""

from __future__ import annotations

from typing import Any

from binlog.spark.jobs.parsing import plain_frame
from binlog.spark.jobs.progress import Report, run_with_progress
from binlog.spark.jobs.selection import Chosen
from binlog.spark.schema import fields_ddl

RECORDS = 10_000
"""How many records are read for it, unless told."""

_CORRUPT = "_corrupt_record"


def infer_schema(spark: Any, chosen: Chosen, records: int | None = RECORDS, *, report: Report | None = None) -> str:
    """The fields of the first records, as Spark's SQL writes them.  records: how many; None for all.

    Records that are no JSON objects say nothing.
    Blocks: for a job of Spark's that reads them.
    Raises: ValueError where none of them is an object.
    """
    frame = plain_frame(spark.read.format("binlog"), chosen, ["data"])
    if records is not None:
        frame = frame.limit(records)
    texts = frame.selectExpr("try_validate_utf8(CAST(data AS STRING)) AS value").where("value IS NOT NULL")
    found = run_with_progress(spark, lambda: _read_json(spark, texts).schema, report)
    found.fields = [field for field in found.fields if field.name != _CORRUPT]
    if not found.fields:
        raise ValueError("no schema can be found: of the records looked at, none is a JSON object with fields")
    return fields_ddl(found)


def _read_json(spark: Any, texts: Any) -> Any:
    reader = spark.read.option("columnNameOfCorruptRecord", _CORRUPT)
    try:
        return reader.json(texts)
    except Exception as error:
        # PySpark takes a frame from 4.3 on.
        if type(error).__name__ != "PySparkTypeError":
            raise
        return reader.json(texts.rdd.map(_only))


def _only(row: Any) -> Any:
    return row[0]
