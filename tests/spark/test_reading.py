"""Reads return every record exactly, in the columns asked for."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from binlog import Reader, Writer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

RECORDS = [b"", b"hello", bytes(range(256)), b"", b"\x00", b"\xff" * 1000, b""]


def load(spark: Any, path: Path) -> Any:
    return spark.read.format("binlog").load(str(path))


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """Return all rows in the order of the log, with data as bytes."""
    found = frame.drop("time").orderBy("number", "offset").collect()
    return [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in found]


def log_records(path: Path) -> list[tuple[int, int, int, bytes]]:
    with Reader(path) as reader:
        return [(*entry.ref, sequence, entry.data) for sequence, entry in enumerate(reader)]


def test_the_schema(spark: Any, log: Path) -> None:
    Writer(log).close()
    fields = load(spark, log).schema.fields
    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in fields] == [
        ("number", "bigint", True),
        ("offset", "bigint", True),
        ("sequence", "bigint", True),
        ("time", "timestamp", True),
        ("data", "binary", True),
    ]


def test_every_record_of_closed_and_open_files(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        for record in RECORDS:
            writer.append(record)
        writer.cutover()
        writer.cutover()  # a file without records
        writer.append_many([*RECORDS, b"last"])
    found = rows(load(spark, log))
    assert found == log_records(log)
    assert [row[3] for row in found] == [*RECORDS, *RECORDS, b"last"]
    assert {row[0] for row in found} == {1, 3}


def test_records_larger_than_a_batch(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"before", bytes(3 << 20), b"between", b"x" * (1 << 20), b"after"])
    frame = load(spark, log).selectExpr("number", "offset", "length(data)", "sha2(data, 256)")
    expected = load(spark, log).collect()
    assert [row[2] for row in rows(frame)] == [6, 3 << 20, 7, 1 << 20, 5]
    assert sorted(bytes(row.data) for row in expected) == sorted(row[3] for row in log_records(log))


def test_many_tiny_records_take_several_batches(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b""] * 200_000)
    frame = load(spark, log)
    summary = frame.selectExpr(
        "count(*)", "min(sequence)", "max(sequence)", "count(distinct offset)", "max(offset)", "sum(length(data))"
    )
    assert tuple(summary.first()) == (200_000, 0, 199_999, 200_000, 256 + 4 * 199_999, 0)


def test_small_files_are_packed_together_and_large_ones_split(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        for _ in range(3):
            writer.append_many(RECORDS)
            writer.cutover()
        writer.append_many([bytes(10_000)] * 300)

    def tasks(**options: str) -> list[int]:
        frame = spark.read.format("binlog").options(**options).load(str(log))
        rows = frame.selectExpr("number", "spark_partition_id() AS task").distinct().groupBy("task").count().collect()
        return sorted(row[1] for row in rows)

    assert tasks() == [4]
    assert tasks(maxPartitionBytes="1m") == [1, 1, 4]
    assert len(tasks(minPartitions="8")) >= 8


def test_count(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many(RECORDS)
    assert load(spark, log).count() == len(RECORDS)


@pytest.mark.parametrize(
    "ddl", ["data binary", "offset long", "sequence bigint, number long", "DATA binary, Number long"]
)
def test_a_schema_selects_columns(spark: Any, log: Path, ddl: str) -> None:
    with Writer(log) as writer:
        writer.append_many(RECORDS)
    frame = spark.read.format("binlog").schema(ddl).load(str(log))
    names = [word.split()[0] for word in ddl.split(", ")]
    assert frame.columns == names
    whole = {name: position for position, name in enumerate(("number", "offset", "sequence", "data"))}
    expected = [tuple(row[whole[name.lower()]] for name in names) for row in log_records(log)]
    found = [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in frame.collect()]
    assert sorted(found) == sorted(expected)


def test_a_schema_may_be_not_null(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many(RECORDS)
    frame = spark.read.format("binlog").schema("data binary NOT NULL, offset long NOT NULL").load(str(log))
    assert [field.nullable for field in frame.schema.fields] == [False, False]
    assert frame.count() == len(RECORDS)


def test_sql_over_a_view(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many(RECORDS)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW events USING binlog OPTIONS (path '{log}')")
    [row] = spark.sql("SELECT count(*), sum(length(data)) FROM events WHERE length(data) > 0").collect()
    assert tuple(row) == (4, sum(map(len, RECORDS)))


def test_a_limit_ends_the_read_early(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([bytes(1 << 16)] * 200)
    assert [row.sequence for row in load(spark, log).limit(3).collect()] == [0, 1, 2]


def test_an_empty_directory_is_an_empty_frame(spark: Any, log: Path) -> None:
    log.mkdir()
    assert load(spark, log).count() == 0


def test_a_log_without_records_is_an_empty_frame(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.cutover()
    assert load(spark, log).collect() == []


def test_the_path_may_be_a_uri(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "a log"
    with Writer(log) as writer:
        writer.append_many(RECORDS)
    assert spark.read.format("binlog").load(log.as_uri()).count() == len(RECORDS)


def jpos_file(records: list[bytes]) -> bytes:
    """Return an open file as the jPOS module writes it: zeros up to the first record, at offset 248."""
    body = b"".join(struct.pack(">I", len(record)) + record for record in records)
    return struct.pack(">IHHQII", 252, 1, 0, 248 + len(body), 1, 0).ljust(248, b"\0") + body


def test_a_jpos_file_has_no_sequence(spark: Any, log: Path) -> None:
    records = [b"hello", b"A" * 1000, b""]
    log.mkdir()
    (log / "00000001.dat").write_bytes(jpos_file(records))
    assert rows(load(spark, log)) == [
        (1, 248, None, b"hello"),
        (1, 257, None, b"A" * 1000),
        (1, 1261, None, b""),
    ]


def test_jpos_and_native_files_in_one_log(spark: Any, log: Path) -> None:
    log.mkdir()
    (log / "00000001.dat").write_bytes(jpos_file([b"theirs"]))
    with Writer(log) as writer:
        writer.append(b"ours, in their file")
        writer.cutover()
        writer.append(b"ours")
    found = rows(load(spark, log))
    assert [(row[0], row[3]) for row in found] == [(1, b"theirs"), (1, b"ours, in their file"), (2, b"ours")]
    assert [row[2] for row in found[:2]] == [None, None]
