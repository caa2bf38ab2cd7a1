"""Messages in Spark: the fields of their envelopes as columns, in batch and as a stream; dead letters; histories."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from binlog import ConsumerGroup, Message, Reader, Retry, Writer
from binlog.format.consumers.message import MadeBy
from binlog.spark import sibling_session
from tests.support.checkout import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SECONDS_MAX = 120.0
KINDS = {
    "number": "bigint",
    "offset": "bigint",
    "sequence": "bigint",
    "time": "timestamp",
    "key": "binary",
    "headers": "map<string,binary>",
    "produced_time": "timestamp",
    "due_time": "timestamp",
    "expiry_time": "timestamp",
    "producer": "binary",
    "producer_sequence": "bigint",
    "data": "binary",
}
NOON_NS = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()) * 10**9
MESSAGE = Message(
    body=b"the body",
    key=b"customer 7",
    headers={"kind": b"order", "grüße": b"\xff\x00"},
    produced_ns=NOON_NS,
    due_ns=NOON_NS + 1_500_000_999,
    expiry_ns=NOON_NS + 3600 * 10**9,
    made_by=MadeBy(bytes(range(16)), 41),
)


@pytest.fixture
def messages(log: Path) -> Path:
    """A log of a message with all fields, one with none, and two plain records."""
    with Writer(log) as writer:
        writer.append_many([MESSAGE.pack(), Message(body=b"bare").pack(), b"plain", b""])
    return log


def source(reader: Any, **options: str) -> Any:
    return reader.format("binlog").option("messages", "true").options(**options)


def plain(row: Any) -> tuple[Any, ...]:
    """Return a row with bytes in place of bytearrays."""
    values = ({k: bytes(v) for k, v in value.items()} if isinstance(value, dict) else value for value in row)
    return tuple(bytes(value) if isinstance(value, bytearray) else value for value in values)


def test_the_envelope_is_in_columns_of_its_own(spark: Any, messages: Path) -> None:
    frame = source(spark.read).load(str(messages))
    assert {field.name: field.dataType.simpleString() for field in frame.schema.fields} == KINDS
    assert all(field.nullable for field in frame.schema.fields)
    times = [f"unix_micros({name}_time) - {NOON_NS // 1000}" for name in ("produced", "due", "expiry")]
    rows = frame.orderBy("sequence").selectExpr(
        "sequence", "key", "headers", *times, "producer", "producer_sequence", "data"
    )
    everything = (b"customer 7", MESSAGE.headers, 0, 1_500_000, 3_600_000_000, bytes(range(16)), 41, b"the body")
    none = (None,) * 5
    assert [plain(row) for row in rows.collect()] == [
        (0, *everything),
        (1, None, {}, *none, b"bare"),
        (2, None, None, *none, b"plain"),
        (3, None, None, *none, b""),
    ]


def test_without_the_option_a_record_is_whole(spark: Any, messages: Path) -> None:
    with Reader(messages) as reader:
        records = [entry.data for entry in reader]
    for options in ({}, {"messages": "false"}):
        frame = spark.read.format("binlog").options(**options).load(str(messages))
        assert frame.columns == ["number", "offset", "sequence", "time", "data"]
        assert [bytes(row.data) for row in frame.orderBy("offset").collect()] == records


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("offset long", None),
        ("DATA binary", [(b"the body",), (b"bare",), (b"plain",), (b"",)]),
        ("key binary, sequence long", [(b"customer 7", 0), (None, 1), (None, 2), (None, 3)]),
        ("data binary NOT NULL, Headers map<string, binary>", None),
        ("producer_sequence long", [(41,), (None,), (None,), (None,)]),
    ],
)
def test_a_schema_selects_columns(spark: Any, messages: Path, ddl: str, expected: list[Any] | None) -> None:
    frame = source(spark.read).schema(ddl).load(str(messages))
    rows = [plain(row) for row in frame.collect()]
    assert len(rows) == 4
    assert expected is None or rows == expected


def test_filters_and_damage(spark: Any, messages: Path) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = source(spark.read).load(str(messages))
        where = "sequence < 2 AND cast(headers['kind'] AS string) = 'order' AND key = X'637573746F6D65722037'"
        assert [bytes(row.data) for row in frame.where(where).collect()] == [b"the body"]
        assert frame.where("due_time > '2027-01-01'").count() == 0
        assert frame.where("time < '2020-01-01'").count() == 0
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    path = messages / "00000001.dat"
    with Writer(messages) as writer:
        ref = writer.append(MESSAGE.pack())
    data = bytearray(path.read_bytes())
    data[ref.offset + 40] ^= 1
    path.write_bytes(data)
    rows = source(spark.read, mode="PERMISSIVE").load(str(messages)).orderBy("offset").collect()
    assert [row.damage is None for row in rows] == [True, True, True, True, False]
    assert plain(rows[-1])[2:-1] == (None,) * 10


def test_a_parser_gets_the_bodies(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([Message(body=b"7 seven", key=b"k").pack(), b"8 eight", b"nine"])
    options = {"parser": "tests.spark.jobs.parsers:words"}
    frame = source(spark.read, **options).load(str(log))
    assert frame.columns[4:] == [*list(KINDS)[4:-1], "parsed", "bad", "error"]
    rows = frame.orderBy("offset").selectExpr("key", "parsed.word", "bad").collect()
    assert [plain(row) for row in rows] == [(b"k", "seven", None), (None, "eight", None), (None, None, b"nine")]


def test_a_stream_has_the_columns_too(spark: Any, messages: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def run() -> list[tuple[Any, ...]]:
        query = (
            source(sibling_session(spark).readStream, maxRecordsPerTrigger="3")
            .load(str(messages))
            .select("sequence", "key", "headers", "data")
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out), format="parquet")
        )
        assert query.awaitTermination(SECONDS_MAX)
        return [plain(row) for row in spark.read.parquet(str(out)).orderBy("sequence").collect()]

    expected: list[Any] = [
        (0, b"customer 7", MESSAGE.headers, b"the body"),
        (1, None, {}, b"bare"),
        (2, None, None, b"plain"),
        (3, None, None, b""),
    ]
    assert run() == expected
    with Writer(messages) as writer:
        writer.append(Message(body=b"later", key=b"k").pack())
    assert run() == [*expected, (4, b"k", {}, b"later")]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A log of three messages, and a group that gave up the second."""
    path = tmp_path / "orders"
    with Writer(path) as writer:
        writer.append_many([Message(body=b"%d" % number, key=b"k", headers={"n": b"1"}).pack() for number in range(3)])
    with ConsumerGroup(path, "billing", retry=Retry(deliveries_max=2, first=0)) as group:
        for item in group.consume(timeout=0.5):
            if item.data == b"1":
                item.nack(error="it is one")
            else:
                item.ack()
    return path


def test_dead_letters_are_a_log_of_messages(spark: Any, orders: Path) -> None:
    names = ("group", "sequence", "deliveries", "reason")
    facts = [f"cast(headers['binlog-{name}'] AS string) AS {name}" for name in names]
    frame = source(spark.read).load(str(orders / "groups" / "billing" / "dead"))
    [row] = frame.selectExpr("key", "headers['n']", "produced_time IS NOT NULL", *facts, "data").collect()
    assert plain(row) == (b"k", b"1", True, "billing", "1", "2", "it is one", b"1")
    [row] = source(spark.read).load(f"{orders}/groups/*/dead").collect()
    assert row.source == str(orders / "groups" / "billing" / "dead")
    assert source(spark.read).load(str(orders)).count() == 3


def test_the_history_of_a_group_is_a_log_of_plain_records(spark: Any, orders: Path) -> None:
    path = orders / "groups" / "billing"
    with Reader(path) as reader:
        operations = [(*entry.ref, entry.data) for entry in reader]
    assert operations
    for reading in (spark.read.format("binlog"), source(spark.read)):
        rows = reading.load(str(path)).orderBy("number", "offset")
        assert [plain(row) for row in rows.select("number", "offset", "data").collect()] == operations
    assert source(spark.read).load(str(path)).where("headers IS NOT NULL OR produced_time IS NOT NULL").count() == 0


def test_the_documented_example_works(spark: Any, orders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    [example] = [block for block in blocks if '"messages"' in block]
    assert '"/var/log/orders' in example
    capfd.readouterr()
    exec(compile(example.replace("/var/log/orders", str(orders)), "docs/spark.md", "exec"), {"spark": spark})
    assert "|               1|     it is one|[31]|" in capfd.readouterr().out


def error_of(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's, with ours in its text
        action()
    return str(caught.value)


def test_errors_name_the_cause(spark: Any, messages: Path) -> None:
    def load(**options: str) -> Callable[[], object]:
        return lambda: spark.read.format("binlog").options(**options).load(str(messages)).count()

    assert "binlog: messages must be true or false, not 'yes'" in error_of(load(messages="yes"))
    assert "binlog: unknown option 'messages'" in error_of(load(messages="true", engine="commitlog"))
    assert "binlog: unknown option 'messages'" in error_of(load(messages="true", engine="journal"))
    without = spark.read.format("binlog").schema("key binary")
    assert "binlog: unknown column 'key'" in error_of(lambda: without.load(str(messages)).count())
    wrong = source(spark.read).schema("headers map<string,string>")
    assert "the type of column 'headers' is map<string,binary>, not map<string,string>" in error_of(
        lambda: wrong.load(str(messages)).count()
    )
    write = spark.createDataFrame([("a",)], "data string").write.format("binlog").option("messages", "true")
    assert "binlog: unknown option 'messages'" in error_of(lambda: write.mode("append").save(str(messages)))
