"""The sink alone: batches of a stream that are given again, as Spark gives them after a failure."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

import binlog
from binlog import Batch
from binlog.errors import CorruptError, StateError
from binlog.spark.writing.write_options import WriteOptions
from tests.support.logs import read_all

pytestmark = pytest.mark.spark


class Query:
    """What Spark does with a stream's writer: messages come from tasks, each call has a writer of its own."""

    def __init__(self, log: Path, name: str = "0f3a", *, file_bytes_min: int = 64 << 20) -> None:
        from binlog.spark.writing.writing import ASIDE, StreamWriter

        self._log = log
        self._name = name
        self.file_bytes_min = file_bytes_min
        self._pickled = pickle.dumps(StreamWriter(WriteOptions(str(log), 2**20, file_bytes_min), "data"))
        self.aside = log / ASIDE

    def staged(self, batch: int, *tasks: Sequence[bytes]) -> list[object]:
        """Have each task write its records aside."""
        from binlog.spark.other_machine import this_machine
        from binlog.spark.writing.writing import Written, write_aside

        messages: list[object] = []
        for number, records in enumerate(tasks):
            path = self.aside / f"{self._name}-{batch}" / f"{number}-{uuid.uuid4().hex}"
            path.parent.mkdir(parents=True, exist_ok=True)
            batches = [Batch.from_records(records)] if records else []
            draft = write_aside(str(path), batches, record_bytes_max=2**20, file_bytes_min=self.file_bytes_min)
            messages.append(Written(number, str(path.parent), draft, self._name, this_machine()))
        return messages

    def commit(self, messages: list[object], batch: int) -> None:
        pickle.loads(self._pickled).commit(messages, batch)

    def abort(self, messages: list[object], batch: int) -> None:
        pickle.loads(self._pickled).abort(messages, batch)


@pytest.fixture(params=[64 << 20, 1, 12], ids=["copied", "files", "both"])
def query(tmp_path: Path, request: pytest.FixtureRequest) -> Query:
    return Query(tmp_path / "log", file_bytes_min=request.param)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


FIRST = ([b"a", b"b"], [b"c"])
SECOND = ([b"d"], [], [b"e", b"f"])


def test_batches_are_appended_in_the_order_of_their_tasks(query: Query, log: Path) -> None:
    query.commit([*reversed(query.staged(0, *FIRST)), None], 0)
    query.commit(query.staged(1, *SECOND), 1)
    assert read_all(log) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert not query.aside.exists()


def test_a_batch_given_again_after_its_publishing_is_in_the_log_once(query: Query, log: Path) -> None:
    for _ in range(3):
        query.commit(query.staged(0, *FIRST), 0)
    query.commit(query.staged(1, *SECOND), 1)
    assert read_all(log) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert not query.aside.exists()


def test_an_abort_that_follows_the_publishing_takes_nothing_back(query: Query, log: Path) -> None:
    messages = query.staged(0, *FIRST)
    query.commit(messages, 0)
    query.abort(messages, 0)
    assert read_all(log) == [b"a", b"b", b"c"]
    query.commit(query.staged(0, *FIRST), 0)
    query.abort(query.staged(1, *SECOND), 1)
    query.commit(query.staged(1, *SECOND), 1)
    assert read_all(log) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert not query.aside.exists()


def test_a_checkpoint_that_is_one_batch_behind_the_log(query: Query, log: Path) -> None:
    query.commit(query.staged(0, *FIRST), 0)
    query.commit(query.staged(1, *SECOND), 1)
    query.commit(query.staged(0, *FIRST), 0)
    query.commit(query.staged(1, *SECOND), 1)
    query.commit(query.staged(2, [b"g"]), 2)
    assert read_all(log) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


def test_a_batch_that_was_aborted_before_its_publishing_leaves_nothing(query: Query, log: Path) -> None:
    query.abort(query.staged(0, *FIRST), 0)
    assert not list(log.glob("*.dat"))
    query.commit(query.staged(0, *SECOND), 0)
    assert read_all(log) == [b"d", b"e", b"f"]


def test_a_batch_whose_bytes_a_disk_has_lost_is_not_appended(query: Query, log: Path) -> None:
    query.commit(query.staged(0, *FIRST), 0)
    messages = query.staged(1, *SECOND)
    path = next(path for path in query.aside.rglob("2-*"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    if query.file_bytes_min == 1:
        # It was synced, as the log's own files are, and as there, it is `check` that finds what a disk loses then.
        query.commit(messages, 1)
        assert [problem.rule for problem in binlog.check(log)] == ["index-crc"]
        return
    with pytest.raises(CorruptError, match="are not those that were written"):
        query.commit(messages, 1)
    assert read_all(log) == [b"a", b"b", b"c"]


def test_another_query_has_batches_of_its_own(query: Query, log: Path) -> None:
    query.commit(query.staged(0, *FIRST), 0)
    other = Query(log, "77aa")
    other.commit(other.staged(0, *SECOND), 0)
    assert read_all(log) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_batch_that_is_not_what_it_was_is_refused(query: Query, log: Path) -> None:
    query.commit(query.staged(0, *FIRST), 0)
    with pytest.raises(StateError, match="batch 0 of spark/0f3a is in the log with 3 records, and has 1 now"):
        query.commit(query.staged(0, [b"x"]), 0)
    assert read_all(log) == [b"a", b"b", b"c"]
    assert not binlog.check(log)
