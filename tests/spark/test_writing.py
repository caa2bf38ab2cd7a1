"""Writing: a frame is appended atomically, and each batch of a stream once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Writer
from tests.support.logs import read_all

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return tmp_path / "other"


def task_output_folder(log: Path) -> Path:
    """Return the folder for task output that is not in the log yet."""
    from binlog.spark.writing.writing import (
        TASK_OUTPUT_FOLDER,  # imported here, because this module is collected without Spark too
    )

    return log / TASK_OUTPUT_FOLDER


def error_of(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's, with ours in its text
        action()
    return str(caught.value)


def numbers(spark: Any, count: int, *, parts: int = 4) -> Any:
    return spark.range(0, count, 1, parts).selectExpr("cast(id AS string) AS value")


def test_a_frame_is_appended_in_the_order_of_its_partitions(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    numbers(spark, 10_000).write.format("binlog").mode("append").save(str(log))
    assert read_all(log) == [b"before", *(b"%d" % number for number in range(10_000))]
    assert not task_output_folder(log).exists()


def test_a_missing_log_is_created(spark: Any, log: Path) -> None:
    frame = spark.createDataFrame([(1, b"\x00\xff"), (2, b"")], "number int, DATA binary")
    frame.coalesce(1).write.format("binlog").mode("append").save(str(log))
    assert read_all(log) == [b"\x00\xff", b""]


def test_read_rows_can_be_written(spark: Any, log: Path, other: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"%d" % number * 50 for number in range(20_000)])
    frame = spark.read.format("binlog").option("maxPartitionBytes", "300k").load(str(log))
    frame.write.format("binlog").mode("append").save(str(other))
    assert read_all(other) == read_all(log)


def test_rows_reach_python_a_megabyte_at_a_time(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    class Noting(DataSourceArrowWriter):
        def __init__(self, notes: str) -> None:
            self._notes = notes

        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            with open(self._notes, "a") as notes:
                notes.writelines(f"{batch.nbytes}\n" for batch in iterator)
            return WriterCommitMessage()

    class Notes(DataSource):
        @classmethod
        def name(cls) -> str:
            return "binlog_test_notes"

        def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
            return Noting(self.options["path"])

    spark.dataSource.register(Notes)
    rows = spark.range(0, 400, 1, 1).selectExpr("repeat('x', 10000) AS value")
    rows.write.format("binlog_test_notes").mode("append").save(str(tmp_path / "notes"))
    found = [int(line) for line in (tmp_path / "notes").read_text().split()]
    assert sum(found) > 4_000_000
    assert max(found) < 2_000_000


def test_large_task_output_becomes_files(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    # 10,000 rows in four parts, of which the last has rows of 30 letters.
    rows = numbers(spark, 10_000).selectExpr("if(value < 7500, value, lpad(value, 30, '.')) AS value")
    rows.write.format("binlog").mode("append").option("minFileBytes", "80000").save(str(log))
    expected = [b"%d" % number for number in range(7500)] + [b"%d" % number for number in range(7500, 10_000)]
    assert [record.lstrip(b".") for record in read_all(log)] == [b"before", *expected]
    files = binlog.stat(log).files
    assert [file.record_count for file in files] == [1, 7500, 2500]  # the first three together
    assert [file.first_sequence for file in files] == [0, 1, 7501]
    assert not task_output_folder(log).exists()
    assert binlog.check(log) == []
    found = spark.read.format("binlog").load(str(log)).selectExpr("max(sequence)", "count(time)").first()
    assert tuple(found) == (10_000, 10_001)


def test_by_default_many_megabytes_become_files(spark: Any, log: Path) -> None:
    """The default is 64 MiB."""
    rows = spark.range(0, 140, 1, 2).selectExpr("cast(concat(id, repeat('x', 1000000)) AS binary) AS data")
    rows.write.format("binlog").mode("append").save(str(log))
    assert [file.record_count for file in binlog.stat(log).files] == [0, 70, 70]
    assert [record.rstrip(b"x") for record in read_all(log)] == [b"%d" % number for number in range(140)]
    assert binlog.check(log) == []


def test_a_failed_job_leaves_nothing(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    failing = spark.range(0, 10_000, 1, 4).selectExpr(
        "CASE WHEN id = 9999 THEN raise_error('no') ELSE 'x' END AS value"
    )
    assert "no" in error_of(lambda: failing.write.format("binlog").mode("append").save(str(log)))
    assert read_all(log) == [b"before"]
    assert not task_output_folder(log).exists()


def test_a_job_with_only_failed_tasks_leaves_nothing(spark: Any, log: Path) -> None:
    failing = spark.range(0, 2, 1, 2).selectExpr("'12345678901' AS data")
    text = error_of(lambda: failing.write.format("binlog").mode("append").option("maxRecordBytes", "10").save(str(log)))
    assert "the limit is 10" in text
    assert list(log.iterdir()) == []


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("'x' AS a, 'y' AS b", {}, "rows must have a column named 'data', or only one column; they have a, b"),
        ("1 AS data", {}, "the column 'data' must be binary or a string, not int"),
        ("cast(null AS string) AS data", {}, "contains null"),
        ("'x' AS data", {"color": "red"}, "unknown option 'color'"),
        ("'x' AS data", {"txnAppId": "a"}, "txnAppId and txnVersion must be given together"),
        ("'12345678901' AS data", {"maxRecordBytes": "10"}, "a record of 11 bytes; the limit is 10"),
    ],
)
def test_rows_that_cannot_be_written_are_an_error(
    spark: Any, log: Path, columns: str, options: dict[str, str], text: str
) -> None:
    frame = spark.range(1).selectExpr(*columns.split(", "))
    assert text in error_of(lambda: frame.write.format("binlog").mode("append").options(**options).save(str(log)))
    assert not log.exists() or read_all(log) == []


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_large_arrow_types_are_written_alike(spark: Any, log: Path, other: Path, kind: str) -> None:
    """With this setting of Spark's, offsets have 64 bits."""
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        rows = spark.range(0, 1000, 1, 2).selectExpr(f"cast(cast(id AS string) AS {kind}) AS data")
        rows.write.format("binlog").mode("append").save(str(log))
        spark.read.format("binlog").load(str(log)).write.format("binlog").mode("append").save(str(other))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert read_all(log) == [b"%d" % number for number in range(1000)]
    assert read_all(other) == read_all(log)


def test_a_log_is_never_overwritten(spark: Any, log: Path) -> None:
    assert "can only be appended to" in error_of(
        lambda: numbers(spark, 1).write.format("binlog").mode("overwrite").save(str(log))
    )


def test_a_version_of_an_application_is_appended_once(spark: Any, log: Path) -> None:
    def write(count: int, version: int) -> None:
        options = {"txnAppId": "nightly", "txnVersion": str(version)}
        numbers(spark, count).write.format("binlog").mode("append").options(**options).save(str(log))

    write(5, 1)
    write(5, 1)
    write(7, 2)
    write(5, 1)
    assert read_all(log) == [b"%d" % number for number in [*range(5), *range(7)]]
    assert "is in the log with 7 records, but now has 8" in error_of(lambda: write(8, 2))


@pytest.fixture
def query(spark: Any, log: Path, other: Path, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    def run(**options: str) -> Any:
        records = spark.readStream.format("binlog").options(**options).load(str(log))
        writing = records.select("data").writeStream.format("binlog")
        query = (
            writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(other))
        )
        query.awaitTermination()
        return query

    yield run
    for active in spark.streams.active:
        active.stop()


def test_a_stream_from_one_log_into_another(log: Path, other: Path, query: Callable[..., Any]) -> None:
    with Writer(log) as writer:
        for first in range(0, 3000, 100):
            writer.append_many([b"%d" % number for number in range(first, first + 100)])
            if first == 1500:
                writer.cutover()
        progress = query(maxRecordsPerTrigger="700").recentProgress
        assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [700] * 4 + [200]
        writer.append_many([b"%d" % number for number in range(3000, 3100)])
        query()
    assert read_all(other) == read_all(log)
    assert not task_output_folder(other).exists()


def test_a_batch_with_an_unnoted_commit_is_retried_but_not_appended(
    log: Path, other: Path, tmp_path: Path, query: Callable[..., Any]
) -> None:
    with Writer(log) as writer:
        writer.append_many([b"%d" % number for number in range(100)])
        query(maxRecordsPerTrigger="30")
        # As after the death of a driver between publishing and its note of the commit.
        last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        writer.append_many([b"%d" % number for number in range(100, 120)])
        query(maxRecordsPerTrigger="30")
    assert read_all(other) == read_all(log)
