"""Offsets and tasks of a stream of messages, as plain calls without a Java virtual machine."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from binlog import Start
from binlog.commitlog.append.message import Message
from binlog.commitlog.store import MessageStore
from binlog.errors import GoneError
from binlog.spark.commitlog.options import StoreReadOptions
from binlog.spark.schema import Field
from tests.support.stores import SMALL, append_numbers, has_unflushed, without_flushes
from tests.support.waiting import until

pytestmark = pytest.mark.spark

BODY = (Field("body", "body", True),)


class Query:
    """What Spark does with a stream's reader: offsets go through JSON, tasks to another process."""

    def __init__(self, path: Path, **options: Any) -> None:
        from binlog.spark.commitlog.following import StreamReader

        self.reader = StreamReader(StoreReadOptions(str(path), **options), BODY)
        self.at = json.loads(json.dumps(self.reader.initialOffset()))

    def latest(self, limit: Any = None) -> dict[str, Any]:
        limit = self.reader.getDefaultReadLimit() if limit is None else limit
        return dict(json.loads(json.dumps(self.reader.latestOffset(self.at, limit))))

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
        tasks = pickle.loads(pickle.dumps(self.reader.partitions(start, end)))
        reader = pickle.loads(pickle.dumps(self.reader))
        rows = [value for task in tasks for batch in reader.read(task) for value in batch.column("body").to_pylist()]
        return [int(value) for value in rows]

    def batch(self, limit: Any = None) -> list[int]:
        start, self.at = self.at, self.latest(limit)
        return sorted(self.between(start, self.at))


def test_it_follows_queues_and_topics_that_come(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 10)
    query = Query(tmp_path)
    assert query.batch() == list(range(10))
    assert query.batch() == []
    append_numbers(tmp_path, 10, 16, queues=2)
    append_numbers(tmp_path, 20, 22, topic="later")
    append_numbers(tmp_path, 30, 32, topic="RMQ_SYS_TRACE_TOPIC")
    assert query.batch() == [*range(10, 16), 20, 21]
    assert query.at == {"later": {"0": 2}, "t": {"0": 13, "1": 3}}
    assert list(query.at) == ["later", "t"]


def test_topics_queues_and_tags_are_chosen(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 8, queues=2)
    query = Query(tmp_path, topics=frozenset(["t", "come"]), queue_id=1, tag="odd")
    assert query.batch() == [3, 7]
    append_numbers(tmp_path, 8, 12, queues=2, topic="come")
    append_numbers(tmp_path, 12, 16, queues=2, topic="other")
    assert query.batch() == [11]
    assert query.at == {"come": {"1": 2}, "t": {"1": 4}}


def test_where_a_new_query_begins(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 10, queues=2)
    late = Query(tmp_path, start=Start.END)
    assert Query(tmp_path, start={("t", 1): 3}).batch() == [0, 2, 4, 6, 7, 8, 9]
    append_numbers(tmp_path, 10, 13, queues=3)
    assert late.batch() == [10, 11, 12]


def test_a_store_without_messages_is_read_from_its_beginning(tmp_path: Path) -> None:
    MessageStore(tmp_path, SMALL).close()
    queries = [Query(tmp_path), Query(tmp_path, start=Start.END)]
    assert [query.batch() for query in queries] == [[], []]
    append_numbers(tmp_path, 0, 5)
    assert [query.batch() for query in queries] == [[0, 1, 2, 3, 4]] * 2


def test_a_batch_can_be_had_again(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 10, queues=2)
    query = Query(tmp_path)
    start, end = query.at, query.latest()
    append_numbers(tmp_path, 10, 20, queues=3)
    assert sorted(Query(tmp_path).between(start, end)) == list(range(10))


def test_limits_of_records_are_kept_and_shared_by_what_each_queue_has(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 300, queues=3)
    append_numbers(tmp_path, 1000, 1100, topic="other")
    query = Query(tmp_path, records_per_trigger=100)
    batches = [query.batch() for _ in range(5)]
    assert [len(batch) for batch in batches] == [100, 100, 100, 100, 0]
    assert sum(number >= 1000 for number in batches[0]) == 25
    assert sorted(number for batch in batches for number in batch) == [*range(300), *range(1000, 1100)]


def test_a_limit_below_the_number_of_queues_gets_all_of_them_read(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 20, queues=5)
    query = Query(tmp_path, records_per_trigger=2)
    batches = [query.batch() for _ in range(11)]
    assert [len(batch) for batch in batches] == [2] * 10 + [0]
    assert sorted(number for batch in batches for number in batch) == list(range(20))


def test_limits_of_bytes_are_kept_and_let_one_message_through(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 50, body_bytes=1000)
    query = Query(tmp_path, bytes_per_trigger=12_000)
    batches = [query.batch() for _ in range(5)]
    assert [len(batch) for batch in batches] == [10] * 5
    query = Query(tmp_path, bytes_per_trigger=10)
    assert [query.batch() for _ in range(3)] == [[0], [1], [2]]
    query = Query(tmp_path, records_per_trigger=7, bytes_per_trigger=1 << 30)
    assert len(query.batch()) == 7


def test_no_limit_for_a_trigger_that_wants_all_and_a_fixed_end_for_what_is_available_now(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    append_numbers(tmp_path, 0, 25, queues=2)
    assert Query(tmp_path, records_per_trigger=10).batch(ReadAllAvailable()) == list(range(25))
    query = Query(tmp_path, records_per_trigger=10)
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(10)
    query.reader.prepareForTriggerAvailableNow()
    append_numbers(tmp_path, 25, 50, queues=3)
    assert sorted(number for _ in range(4) for number in query.batch()) == list(range(25))
    assert query.latest() == query.at


def pruned(path: Path) -> Query:
    """A query that has read one message, of a file that is gone with more of them."""
    append_numbers(path, 0, 200, body_bytes=1000)
    query = Query(path, records_per_trigger=1)
    assert query.batch() == [0]
    min((path / "commitlog").iterdir()).unlink()
    MessageStore(path, SMALL).close()
    return query


def test_what_retention_removed_unread_is_told_or_passed_over(tmp_path: Path) -> None:
    query = pruned(tmp_path)
    at = query.at
    with pytest.raises(GoneError, match=r"t/0 from queue offset 1 up to \d+ were removed; set failOnDataLoss=false"):
        query.batch()
    patient = Query(tmp_path, fail_on_data_loss=False)
    patient.at = at
    first, *_, last = rest = patient.batch()
    assert (rest, last) == (list(range(first, 200)), 199)
    assert patient.batch() == []


@pytest.mark.parametrize("there", [0, 5, 60])
def test_a_store_that_was_made_anew_is_told_or_begun(tmp_path: Path, there: int) -> None:
    """As far as queue offsets tell it; one with more messages than were read cannot be told from the old one."""
    append_numbers(tmp_path, 0, 50)
    query = Query(tmp_path)
    query.batch()
    at = query.at
    shutil.rmtree(tmp_path)
    append_numbers(tmp_path, 100, 100 + there)
    if there < 50:
        with pytest.raises(GoneError, match=f"t/0 was read up to queue offset 50, but now ends at {there}"):
            query.batch()
    patient = Query(tmp_path, fail_on_data_loss=False)
    patient.at = at
    assert patient.batch() == list(range(100 if there < 50 else 150, 100 + there))
    assert patient.batch() == []


def test_an_idle_query_costs_little_however_many_queues_there_are(tmp_path: Path) -> None:
    append_numbers(tmp_path, 0, 100, queues=50)
    query = Query(tmp_path)
    query.batch()
    assert 0 < opened(query) <= 5
    append_numbers(tmp_path, 100, 101)
    assert query.batch() == [100]


def opened(query: Query) -> int:
    """How many files and folders it opens to be told that there is nothing new."""
    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        count += watching and event == "open"

    watching = False
    sys.addaudithook(hook)
    watching = True
    query.latest()
    watching = False
    return count


def test_with_sync_flush_it_gives_what_is_flushed_and_nothing_else(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store.append(Message("t", b"1"))
        query = Query(tmp_path)
        deadline = time.monotonic() + 60
        while (batch := query.batch()) == []:  # queues are told of it a moment after the append
            assert time.monotonic() < deadline
        assert batch == [1]
        with without_flushes(store):
            thread = threading.Thread(target=store.append, args=(Message("t", b"2"),))
            thread.start()
            until(lambda: has_unflushed(store))
            store._dispatcher.run()
            assert query.batch() == []
        thread.join()
        while (batch := query.batch()) == []:
            assert time.monotonic() < deadline
        assert batch == [2]
