"""Offsets and tasks of a stream, without a Java virtual machine."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog import Reader, Start, Writer
from binlog.errors import GoneError
from binlog.spark.log.options import ReadOptions
from binlog.spark.schema import Field

pytestmark = pytest.mark.spark

DATA = (Field("data", "data", True),)


class Query:
    """A stream reader used as Spark does: offsets go through JSON, tasks through pickle."""

    def __init__(self, *paths: Path, **options: Any) -> None:
        from binlog.spark.log.following import StreamReader

        self.reader = StreamReader(ReadOptions(tuple(map(str, paths)), **options), DATA)
        self.at = json.loads(json.dumps(self.reader.initialOffset()))

    def latest(self, limit: Any = None) -> dict[str, Any]:
        limit = self.reader.getDefaultReadLimit() if limit is None else limit
        return dict(json.loads(json.dumps(self.reader.latestOffset(self.at, limit))))

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
        tasks = pickle.loads(pickle.dumps(self.reader.partitions(start, end)))
        reader = pickle.loads(pickle.dumps(self.reader))
        return [value for task in tasks for batch in reader.read(task) for value in batch.column("data").to_pylist()]

    def batch(self, limit: Any = None) -> list[bytes]:
        start, self.at = self.at, self.latest(limit)
        return self.between(start, self.at)


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def test_appends_and_cutovers_are_followed(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many(numbers(0, 10))
        query = Query(log)
        assert query.batch() == numbers(0, 10)
        assert query.batch() == []
        writer.append_many(numbers(10, 15))
        writer.cutover()
        writer.cutover()
        writer.append_many(numbers(15, 20))
        assert query.batch() == numbers(10, 20)
        writer.cutover()
        assert query.batch() == []


def test_the_keys_of_an_offset_have_a_fixed_order(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"12345")
        query = Query(log)
        query.batch()
    text = json.dumps(query.at)
    assert text.startswith(json.dumps({str(log): {"number": 1, "offset": 265}})[:-2] + ', "log": "')
    assert json.dumps(query.latest()) == text


def test_a_batch_can_be_read_again(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many(numbers(0, 10))
        query = Query(log)
        start, end = query.at, query.latest()
        writer.append_many(numbers(10, 20))
        writer.cutover()
        assert Query(log).between(start, end) == numbers(0, 10)


def test_the_start_of_a_new_query(log: Path) -> None:
    with Writer(log) as writer:
        refs = writer.append_many(numbers(0, 5))
        late = Query(log, start=Start.END)
        assert Query(log, start=refs[3]).batch() == numbers(3, 5)
        writer.append_many(numbers(5, 7))
        assert late.batch() == numbers(5, 7)


def test_a_log_with_no_files_yet_is_read_from_its_beginning(log: Path) -> None:
    log.mkdir()
    queries = [Query(log), Query(log, start=Start.END)]
    assert [query.batch() for query in queries] == [[], []]
    with Writer(log) as writer:
        writer.append_many(numbers(0, 5))
    assert [query.batch() for query in queries] == [numbers(0, 5)] * 2


def test_record_limits_are_exact(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many(numbers(0, 25))
        writer.cutover()
        writer.append_many(numbers(25, 40))
    query = Query(log, records_per_trigger=10)
    assert [query.batch() for _ in range(5)] == [
        numbers(0, 10), numbers(10, 20), numbers(20, 30), numbers(30, 40), []
    ]  # fmt: skip


def test_byte_limits_are_approximate_and_admit_one_record(log: Path) -> None:
    with Writer(log) as writer:
        for _ in range(20):
            writer.append_many([bytes(1000)] * 50)
        writer.append(bytes(2_000_000))
        writer.append(b"last")
    query = Query(log, bytes_per_trigger=200_000)
    batches = []
    while batch := query.batch():
        batches.append(batch)
    assert sum(map(len, batches)) == 1002
    sizes = [sum(map(len, batch)) for batch in batches]
    assert max(sizes) <= 2_000_000
    assert sorted(sizes)[-2] <= 266_000
    assert len(batches) >= 6


def test_both_limits_at_once(log: Path) -> None:
    with Writer(log) as writer:
        for _ in range(100):
            writer.append(bytes(1000))
    query = Query(log, records_per_trigger=10, bytes_per_trigger=1 << 30)
    assert len(query.batch()) == 10
    query = Query(log, records_per_trigger=1000, bytes_per_trigger=5000)
    assert 1 <= len(query.batch()) <= 5


def test_trigger_once_ignores_limits(log: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

    with Writer(log) as writer:
        writer.append_many(numbers(0, 25))
    query = Query(log, records_per_trigger=10)
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(10)
    assert Query(log, bytes_per_trigger=10).reader.getDefaultReadLimit() == ReadMaxBytes(10)
    assert query.batch(ReadAllAvailable()) == numbers(0, 25)


def test_available_now_fixes_its_end_once(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many(numbers(0, 25))
        query = Query(log, records_per_trigger=10)
        query.reader.prepareForTriggerAvailableNow()
        writer.append_many(numbers(25, 50))
        batches = [query.batch() for _ in range(4)]
    assert batches == [numbers(0, 10), numbers(10, 20), numbers(20, 25), []]


def test_several_logs_share_a_limit_in_proportion(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "log-2"
    with Writer(log) as writer, Writer(other) as second:
        writer.append_many([b"a"] * 300)
        second.append_many([b"b"] * 100)
    query = Query(tmp_path / "log*", records_per_trigger=100)
    batch = query.batch()
    assert (batch.count(b"a"), batch.count(b"b")) == (75, 25)
    assert sum(len(query.batch()) for _ in range(3)) == 300
    assert query.batch() == []


def test_a_log_that_a_glob_matches_later_is_read_from_its_beginning(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"a")
    query = Query(tmp_path / "log*", start=Start.END)
    assert query.batch() == []
    with Writer(tmp_path / "log-2") as writer:
        writer.append(b"b")
    assert query.batch() == [b"b"]


@given(st.integers(1, 1000), st.dictionaries(st.text("abc", min_size=1), st.integers(1, 10**9), min_size=1))
def test_limits_are_divided_completely_and_starve_none(limit: int, sizes: dict[str, int]) -> None:
    from binlog.spark.stream import divide_limit

    found = divide_limit(limit, sizes)
    assert sum(found.values()) == limit
    assert found.keys() == sizes.keys()
    assert min(found.values()) >= (1 if limit >= len(sizes) else 0)


def pruned(log: Path) -> Query:
    """A query that has read the first record, from a file that was then removed with unread ones."""
    with Writer(log) as writer:
        writer.append_many(numbers(0, 5))
        query = Query(log, records_per_trigger=1)
        query.batch()
        writer.cutover()
        writer.append_many(numbers(5, 10))
    (log / "00000001.dat").unlink()
    return query


def test_unread_records_removed_by_retention_are_reported(log: Path) -> None:
    query = pruned(log)
    with pytest.raises(GoneError, match="up to 2:256 were removed; use failOnDataLoss=false to continue"):
        query.batch()


def test_records_removed_by_retention_may_be_skipped(log: Path) -> None:
    query = pruned(log)
    patient = Query(log, fail_on_data_loss=False)
    patient.at = query.at
    assert patient.batch() == numbers(5, 10)
    assert patient.batch() == []


@pytest.mark.parametrize("grown", [False, True])
def test_a_replaced_log_is_reported_or_read_from_its_beginning(log: Path, grown: bool) -> None:
    with Writer(log) as writer:
        writer.append_many(numbers(0, 50))
    query = Query(log)
    query.batch()
    for file in log.iterdir():
        file.unlink()
    with Writer(log) as writer:
        writer.append_many(numbers(100, 300 if grown else 105))
    with pytest.raises(GoneError, match="this is not the log that was read before"):
        query.batch()
    patient = Query(log, fail_on_data_loss=False)
    patient.at = query.at
    assert patient.batch() == numbers(100, 300 if grown else 105)
    assert patient.batch() == []


def test_closed_files_only(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many(numbers(0, 5))
        query = Query(log, include_open_file=False)
        assert query.batch() == []
        writer.cutover()
        writer.append_many(numbers(5, 10))
        assert query.batch() == numbers(0, 5)
        writer.cutover()
        assert query.batch() == numbers(5, 10)


def test_an_idle_query_is_cheap(log: Path) -> None:
    """It asks a hundred times per second, and opens only the newest files, however many exist."""
    with Writer(log) as writer:
        for number in range(30):
            writer.append(b"%d" % number)
            writer.cutover()
        query = Query(log)
        query.batch()
        opened = _opened(query)
    with Reader(log) as reader:
        assert len(list(reader)) == 30
    assert opened <= 4


def _opened(query: Query) -> int:
    import sys

    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        count += progress and event == "open" and str(arguments[0]).endswith(".dat")

    progress = False
    sys.addaudithook(hook)
    progress = True
    query.latest()
    progress = False
    return count
