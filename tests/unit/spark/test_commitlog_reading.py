"""Planning and reading a commit log in batch, as plain calls without a Java virtual machine."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog import Since, Start
from binlog.commitlog.append.message import Message
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.store import MessageStore
from binlog.errors import CorruptError, FullError, GoneError
from binlog.format.commitlog.message_parts import Host
from binlog.spark.commitlog.options import StoreReadOptions
from binlog.spark.schema import Field
from tests.support.examples import examples
from tests.support.stores import SMALL, append_numbers

pytestmark = pytest.mark.spark

PLACE = tuple(Field(name, name, True) for name in ("topic", "queue_id", "queue_offset", "body"))


def read(path: Path, filters: list[Any] | None = None, **options: Any) -> list[list[tuple[Any, ...]]]:
    """The rows of each task, which are read as in another process."""
    from binlog.spark.commitlog.reading import FilteringReader

    reader = FilteringReader(StoreReadOptions(str(path), **options), PLACE)
    assert list(reader.pushFilters(filters or [])) == (filters or [])
    tasks = pickle.loads(pickle.dumps(reader.partitions()))
    reader = pickle.loads(pickle.dumps(reader))
    return [[tuple(row.values()) for batch in reader.read(task) for row in batch.to_pylist()] for task in tasks]


def numbers(path: Path, filters: list[Any] | None = None, **options: Any) -> list[int]:
    return sorted(int(row[3]) for task in read(path, filters, **options) for row in task)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three queues of 200 messages of a kibibyte, and three others."""
    path: Path = tmp_path_factory.mktemp("stores") / "store"
    append_numbers(path, 0, 600, queues=3, body_bytes=1000)
    append_numbers(path, 1000, 1003, topic="other")
    append_numbers(path, 2000, 2001, topic="RMQ_SYS_TRACE_TOPIC")
    return path


@settings(max_examples=examples(15))
@given(st.integers(1, 1 << 20), st.integers(1, 20))
def test_each_message_is_in_one_task_in_the_order_of_its_queue(store: Path, task_bytes: int, tasks_min: int) -> None:
    tasks = read(store, partition_bytes=task_bytes, partitions_min=tasks_min)
    assert all(tasks)
    assert len(tasks) >= tasks_min or task_bytes == 1
    rows = [row for task in tasks for row in task]
    assert [(*row[:3], int(row[3])) for row in rows] == [
        *(("other", 0, index, 1000 + index) for index in range(3)),
        *(("t", queue, index, 3 * index + queue) for queue in range(3) for index in range(200)),
    ]


def test_topics_queues_and_tags_are_chosen(store: Path) -> None:
    assert numbers(store, topics=frozenset(["other"])) == [1000, 1001, 1002]
    assert numbers(store, topics=frozenset(["other", "RMQ_SYS_TRACE_TOPIC"])) == [1000, 1001, 1002, 2000]
    assert numbers(store, queue_id=2) == list(range(2, 600, 3))
    assert numbers(store, queue_id=2, tag="odd") == list(range(5, 600, 6))
    assert numbers(store, tag="none") == []


def test_a_topic_that_is_not_there_is_told(store: Path) -> None:
    with pytest.raises(ValueError, match=r"has no topic 'a', 'b'$"):
        numbers(store, topics=frozenset(["a", "other", "b"]))
    with pytest.raises(ValueError, match=r"has no topic 'other', or it has no queue 1"):
        numbers(store, topics=frozenset(["other"]), queue_id=1)


def test_positions_by_queue_offset(store: Path) -> None:
    start, end = {("t", 0): 10, ("t", 2): 199}, {("t", 0): 12, ("t", 1): 0, ("other", 0): 1}
    assert numbers(store, start=start, end=end) == [30, 33, 599, 1000]
    assert numbers(store, start=Start.END) == []
    assert numbers(store, end=Start.BEGINNING) == []
    with pytest.raises(ValueError, match="t/0 ends at queue offset 200, before 201"):
        numbers(store, start={("t", 0): 201})
    with pytest.raises(ValueError, match="the position names t/7, but there is no such queue"):
        numbers(store, end={("t", 7): 0})


def times(path: Path, queue_id: int) -> list[int]:
    with StoreReader(path) as reader:
        return [reader.pull("t", queue_id, index, 1)[0][0].store_ms for index in range(200)]


def test_positions_by_time(store: Path) -> None:
    stored = [(ms, 3 * index + queue) for queue in range(3) for index, ms in enumerate(times(store, queue))]
    middle = sorted(stored)[300][0]
    since = Since(datetime.fromtimestamp(middle / 1000, UTC))
    late = [number for ms, number in stored if ms >= middle]
    assert numbers(store, start=since, topics=frozenset("t")) == sorted(late)
    assert numbers(store, end=since, topics=frozenset("t")) == sorted({number for _, number in stored} - set(late))
    assert numbers(store, start=Since(datetime(2200, 1, 1, tzinfo=UTC))) == []


def test_filters_narrow_what_is_read(store: Path) -> None:
    from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan

    assert numbers(store, [EqualTo(("topic",), "other")]) == [1000, 1001, 1002]
    assert numbers(store, [EqualTo(("queue_id",), 1), GreaterThan(("topic",), "s")]) == list(range(1, 600, 3))
    place = [GreaterThanOrEqual(("queue_offset",), 5), LessThan(("queue_offset",), 7), In(("queue_id",), [1, 2])]
    assert numbers(store, [EqualTo(("topic",), "t"), *place]) == [16, 17, 19, 20]
    stored = times(store, 0)
    low, high = stored[50], stored[150]
    within = [GreaterThanOrEqual(("store_time",), at(low)), LessThan(("store_time",), at(high))]
    found = numbers(store, [EqualTo(("topic",), "t"), EqualTo(("queue_id",), 0), *within])
    assert found == [3 * index for index, ms in enumerate(stored) if low <= ms < high]
    assert numbers(store, [GreaterThan(("store_time",), datetime(2200, 1, 1, tzinfo=UTC))]) == []


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)


def test_every_column(tmp_path: Path) -> None:
    from binlog.spark.commitlog.engine import COLUMNS
    from binlog.spark.commitlog.reading import BatchReader

    born = Host.parse("[::1]:4000")
    with MessageStore(tmp_path, SMALL) as store:
        message = Message.of(
            "t", b"\xff\x00", queue_id=2, tag="paid", keys=["a", "b"], properties={"x": "é"}, flag=-7,
            born_ms=1_700_000_000_123, born_host=born,
        )  # fmt: skip
        appended = store.append([message._replace(reconsume_count=3, prepared_offset=9), Message("t", b"", queue_id=2)])
        odd = b"KEYS\x01 a  b \x02TAGS\x01\xff\x02TAGS\x01last\x02lost\x02\xfe\x01\xfd"
        store.append(Message("t", b"odd", odd, queue_id=2, born_ms=2**62))
    fields = tuple(Field(column.name, column.name, True) for column in COLUMNS)
    reader = BatchReader(StoreReadOptions(str(tmp_path)), fields)
    [task] = reader.partitions()
    rows = [row for batch in reader.read(task) for row in batch.to_pylist()]
    stored = at(appended.store_ms)
    assert rows[0] == {
        "topic": "t", "queue_id": 2, "queue_offset": 0, "offset": 0,
        "message_id": "7F00000100002A9F0000000000000000", "body": b"\xff\x00", "tag": "paid", "keys": ["a", "b"],
        "properties": [("x", "é"), ("KEYS", "a b"), ("TAGS", "paid")], "flag": -7, "system_flag": 16,
        "born_time": datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC), "born_host": "[::1]:4000",
        "store_time": stored, "store_host": "127.0.0.1:10911", "reconsume_count": 3, "prepared_offset": 9,
        "message_bytes": appended.offsets[1],
    }  # fmt: skip
    assert [row["born_time"] for row in rows[1:]] == [at(0), None]
    assert [(row["tag"], row["keys"], row["properties"]) for row in rows[1:]] == [
        (None, [], []),
        ("last", ["a", "b"], [("KEYS", " a  b "), ("TAGS", "last"), ("\ufffd", "\ufffd")]),
    ]


@pytest.mark.parametrize("names", [("keys",), ("tag", "topic"), ("queue_offset",), ("store_host", "body"), ("topic",)])
def test_only_the_columns_asked_for(store: Path, names: tuple[str, ...]) -> None:
    from binlog.spark.commitlog.columns import arrow_schema
    from binlog.spark.commitlog.reading import BatchReader

    fields = tuple(Field(name, name.upper(), True) for name in names)
    reader = BatchReader(StoreReadOptions(str(store), queue_id=1), fields)
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert {batch.schema for batch in batches} == {arrow_schema(fields)}
    assert batches[0].schema.names == [name.upper() for name in names]
    assert sum(batch.num_rows for batch in batches) == 200


def removed(path: Path, count: int) -> None:
    """Retention removed files of the log; and the store was opened since."""
    for file in sorted((path / "commitlog").iterdir())[:count]:
        file.unlink()
    MessageStore(path, SMALL).close()


def test_what_was_removed_before_a_position_is_told_or_passed_over(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 200, body_bytes=1000)
    removed(tmp_path, 1)
    [first, *_] = there = numbers(tmp_path)
    assert there == list(range(first, 200))
    assert 40 < first < 70
    with pytest.raises(GoneError, match=rf"t/0 from queue offset 3 up to {first} were removed; set failOnDataLoss=fal"):
        numbers(tmp_path, start={("t", 0): 3})
    assert numbers(tmp_path, start={("t", 0): 3}, fail_on_data_loss=False) == there


def test_what_was_removed_after_the_planning_is_told_or_passed_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from binlog.spark.commitlog.reading import BatchReader

    append_numbers(tmp_path, 0, 200, body_bytes=1000)
    readers = [BatchReader(StoreReadOptions(str(tmp_path), fail_on_data_loss=fail), PLACE) for fail in (True, False)]
    tasks = [reader.partitions() for reader in readers]
    removed(tmp_path, 1)
    there = numbers(tmp_path)
    with pytest.raises(GoneError, match="the messages of t/0 from queue offset 0 up to"):
        list(readers[0].read(tasks[0][0]))
    found = [int(value) for batch in readers[1].read(tasks[1][0]) for value in batch.column("body").to_pylist()]
    assert found == there
    assert "binlog: passed over, with failOnDataLoss=false" in capfd.readouterr().err


def test_a_store_that_was_replaced_by_a_shorter_one_is_gone(tmp_path: Path) -> None:
    from binlog.spark.commitlog.reading import BatchReader

    append_numbers(tmp_path / "store", 0, 20)
    append_numbers(tmp_path / "other", 0, 10)
    reader = BatchReader(StoreReadOptions(str(tmp_path / "store")), PLACE)
    [task] = reader.partitions()
    (tmp_path / "store").rename(tmp_path / "old")
    (tmp_path / "other").rename(tmp_path / "store")
    with pytest.raises(GoneError, match="ends at queue offset 10, before 20; it existed when the read was planned"):
        list(reader.read(task))


def test_damage_and_messages_that_are_too_large_are_errors(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 10, body_bytes=1000)
    with pytest.raises(FullError, match="the limit is 500"):
        numbers(tmp_path, record_bytes_max=500)
    file = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[3000] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptError, match=r"_crc\]"):
        numbers(tmp_path)


def test_a_store_without_messages_is_empty(tmp_path: Path) -> None:
    MessageStore(tmp_path, SMALL).close()
    assert read(tmp_path) == []
