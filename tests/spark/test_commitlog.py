"""Messages of a commit log in Spark: in batch, and as a stream that is killed and resumes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlog.spark import sibling_session
from tests.support.checkout import ROOT
from tests.support.stores import append_numbers

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SECONDS_MAX = 120.0


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    append_numbers(path, 0, 600, queues=3, body_bytes=100)
    append_numbers(path, 1000, 1003, topic="other")
    return path


def source(reader: Any, **options: str) -> Any:
    return reader.format("binlog").option("engine", "commitlog").options(**options)


def test_each_message_is_a_row_with_a_column_for_every_field(spark: Any, store: Path) -> None:
    frame = source(spark.read).load(str(store))
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert list(kinds) == [
        "topic", "queue_id", "queue_offset", "offset", "message_id", "body", "tag", "keys", "properties", "flag",
        "system_flag", "born_time", "born_host", "store_time", "store_host", "reconsume_count", "prepared_offset",
        "message_bytes",
    ]  # fmt: skip
    rows = frame.orderBy("topic", "queue_id", "queue_offset").collect()
    assert len(rows) == 603
    row = rows[3 + 400 + 7].asDict()
    assert (row["topic"], row["queue_id"], row["queue_offset"], row["tag"], row["keys"]) == ("t", 2, 7, "odd", ["k23"])
    assert (bytes(row["body"]), row["properties"]) == (b"23".ljust(100), {"KEYS": "k23", "TAGS": "odd"})
    assert row["message_id"] == f"7F00000100002A9F{row['offset']:016X}"
    found = frame.selectExpr("explode(keys) AS key").where("key = 'k1002'").count()
    assert found == 1


def test_options_a_schema_and_filters(spark: Any, store: Path) -> None:
    frame = source(spark.read, topic="t", queue="1", tag="even", minPartitions="4").schema("BODY binary, tag string")
    assert sorted(int(row.BODY) for row in frame.load(str(store)).collect()) == list(range(1, 600, 6))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = source(spark.read).load(str(store))
        where = "topic = 't' AND queue_id = 2 AND queue_offset BETWEEN 5 AND 6 AND store_time > '2020-01-01'"
        assert sorted(int(row.body) for row in frame.where(where).collect()) == [17, 20]
        assert frame.where("store_time < '2020-01-01'").count() == 0
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def error_of(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's, with ours in its text
        action()
    return str(caught.value)


def test_errors_name_the_cause(spark: Any, store: Path) -> None:
    def load(**options: str) -> Callable[[], object]:
        return lambda: spark.read.format("binlog").options(**options).load(str(store)).count()

    assert "binlog: engine must be one of log, commitlog, journal, not 'x'" in error_of(load(engine="x"))
    assert "binlog: unknown option 'mode'; the options are path, topic" in error_of(load(engine="commitlog", mode="x"))
    assert "has no topic 'x'" in error_of(load(engine="commitlog", topic="x"))
    write = spark.createDataFrame([("a",)], "data string").write.format("binlog").option("engine", "commitlog")
    assert "binlog: only the process that has a commit log open" in error_of(
        lambda: write.mode("append").save(str(store))
    )


def test_a_stream_resumes_exactly_at_its_checkpoint(spark: Any, store: Path, tmp_path: Path) -> None:
    """Also after a batch whose commit Spark has not noted, and with new queues and topics."""
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"

    def run() -> list[int]:
        query = (
            source(sibling_session(spark).readStream, maxRecordsPerTrigger="250")
            .load(str(store))
            .select("body")
            .writeStream.option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(out), format="parquet")
        )
        assert query.awaitTermination(SECONDS_MAX)
        return sorted(int(row.body) for row in spark.read.parquet(str(out)).collect())

    everything = [*range(600), *range(1000, 1003)]
    assert run() == everything
    batches = sorted((checkpoint / "commits").glob("[0-9]*"))
    assert len(batches) == 3
    for path in (checkpoint / "commits").glob("*2*"):
        path.unlink()
    append_numbers(store, 600, 610, queues=5)
    append_numbers(store, 2000, 2010, topic="new")
    assert run() == [*range(610), *range(1000, 1003), *range(2000, 2010)]
    offset = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)).read_text()
    assert '{"new":{"0":10},"other":{"0":3},"t":{' in offset.replace(" ", "")


def test_the_documented_example_works(spark: Any, store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    append_numbers(store, 3000, 3010, topic="orders")
    text = (ROOT / "docs" / "spark.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    [example] = [block for block in blocks if "commitlog" in block]
    capfd.readouterr()
    assert '"/var/lib/store"' in example
    exec(compile(example.replace("/var/lib/store", str(store)), "docs/spark.md", "exec"), {"spark": spark})
    lines = capfd.readouterr().out.splitlines()
    assert next(line for line in lines if "even" in line).split("|")[1:4] == ["           0", "even", "[k3000]"]
    assert lines[-1] == "10"


def test_a_stream_follows_appends(spark: Any, store: Path) -> None:
    beside = sibling_session(spark)
    query = (
        source(beside.readStream, startingPosition="latest", topic="t")
        .load(str(store))
        .select("body")
        .writeStream.format("memory")
        .queryName("followed")
        .start()
    )
    try:
        query.processAllAvailable()  # now it has its start
        found = beside.table("followed")
        for first in (600, 603):
            append_numbers(store, first, first + 3)
            deadline = time.monotonic() + SECONDS_MAX
            while found.count() < first - 597:
                assert time.monotonic() < deadline
                assert query.isActive, query.exception()
        assert sorted(int(row.body) for row in found.collect()) == list(range(600, 606))
    finally:
        query.stop()
