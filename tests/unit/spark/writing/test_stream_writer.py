"""The stream writer alone: batches that Spark retries after a failure."""

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
    """A stream writer used as Spark does: messages come from tasks, and each call has a new writer."""

    def __init__(self, log: Path, name: str = "0f3a", *, file_bytes_min: int = 64 << 20) -> None:
        from binlog.spark.writing.writing import TASK_OUTPUT_FOLDER, StreamWriter

        self._log = log
        self._name = name
        self.file_bytes_min = file_bytes_min
        self._pickled = pickle.dumps(StreamWriter(WriteOptions(str(log), 2**20, file_bytes_min), "data"))
        self.folder = log / TASK_OUTPUT_FOLDER

    def staged(self, batch: int, *tasks: Sequence[bytes]) -> list[object]:
        """Run the tasks, each of which writes its records to a file."""
        from binlog.spark.shared_fs import this_machine
        from binlog.spark.writing.writing import Written, write_task_output

        messages: list[object] = []
        for number, records in enumerate(tasks):
            path = self.folder / f"{self._name}-{batch}" / f"{number}-{uuid.uuid4().hex}"
            path.parent.mkdir(parents=True, exist_ok=True)
            batches = [Batch.from_records(records)] if records else []
            external = write_task_output(str(path), batches, record_bytes_max=2**20, file_bytes_min=self.file_bytes_min)
            messages.append(Written(number, str(path.parent), external, self._name, this_machine()))
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
    assert not query.folder.exists()


def test_a_batch_retried_after_publishing_is_in_the_log_once(query: Query, log: Path) -> None:
    for _ in range(3):
        query.commit(query.staged(0, *FIRST), 0)
    query.commit(query.staged(1, *SECOND), 1)
    assert read_all(log) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert not query.folder.exists()


def test_an_abort_after_publishing_keeps_the_records(query: Query, log: Path) -> None:
    messages = query.staged(0, *FIRST)
    query.commit(messages, 0)
    query.abort(messages, 0)
    assert read_all(log) == [b"a", b"b", b"c"]
    query.commit(query.staged(0, *FIRST), 0)
    query.abort(query.staged(1, *SECOND), 1)
    query.commit(query.staged(1, *SECOND), 1)
    assert read_all(log) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert not query.folder.exists()


def test_a_checkpoint_one_batch_older_than_the_log(query: Query, log: Path) -> None:
    query.commit(query.staged(0, *FIRST), 0)
    query.commit(query.staged(1, *SECOND), 1)
    query.commit(query.staged(0, *FIRST), 0)
    query.commit(query.staged(1, *SECOND), 1)
    query.commit(query.staged(2, [b"g"]), 2)
    assert read_all(log) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


def test_a_batch_aborted_before_publishing_leaves_nothing(query: Query, log: Path) -> None:
    query.abort(query.staged(0, *FIRST), 0)
    assert not list(log.glob("*.dat"))
    query.commit(query.staged(0, *SECOND), 0)
    assert read_all(log) == [b"d", b"e", b"f"]


def test_a_batch_damaged_on_disk_is_not_appended(query: Query, log: Path) -> None:
    query.commit(query.staged(0, *FIRST), 0)
    messages = query.staged(1, *SECOND)
    path = next(path for path in query.folder.rglob("2-*"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    if query.file_bytes_min == 1:
        # It was synced, as the log's files are; if the disk loses data later, `check` finds that.
        query.commit(messages, 1)
        assert [problem.rule for problem in binlog.check(log)] == ["index-crc"]
        return
    with pytest.raises(CorruptError, match="are not those that were written"):
        query.commit(messages, 1)
    assert read_all(log) == [b"a", b"b", b"c"]


def test_another_query_has_its_own_batches(query: Query, log: Path) -> None:
    query.commit(query.staged(0, *FIRST), 0)
    other = Query(log, "77aa")
    other.commit(other.staged(0, *SECOND), 0)
    assert read_all(log) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_retried_batch_with_another_size_is_refused(query: Query, log: Path) -> None:
    query.commit(query.staged(0, *FIRST), 0)
    with pytest.raises(StateError, match="batch 0 of spark/0f3a is in the log with 3 records, but now has 1"):
        query.commit(query.staged(0, [b"x"]), 0)
    assert read_all(log) == [b"a", b"b", b"c"]
    assert not binlog.check(log)
