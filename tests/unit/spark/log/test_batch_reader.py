"""Planning and reading tasks, without a Java virtual machine; marked `spark` for its packages."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Writer
from binlog.errors import FullError, GoneError
from binlog.spark.log.options import ReadOptions
from binlog.spark.schema import Field

pytestmark = pytest.mark.spark

DATA = (Field("data", "data", True),)


def reader_of(log: Path) -> Any:
    from binlog.spark.log.reading import BatchReader

    return BatchReader(ReadOptions((str(log),)), DATA)


def read(reader: Any, partition: Any) -> list[bytes]:
    """Read the records of a task, pickled as for another process."""
    reader, partition = pickle.loads(pickle.dumps((reader, partition)))
    return [value for batch in reader.read(partition) for value in batch.column("data").to_pylist()]


def _range(log: Path, start: int, end: int) -> Any:
    """Return a range of the first file."""
    from binlog.spark.log.snapshot import FileRange
    from binlog.spark.tasks import Task

    return Task((FileRange(str(log), 1, start, end, binlog.stat(log).files[0].uuid),))


def test_records_appended_after_planning_are_not_read(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append_many([b"1", b"2"])
        reader = reader_of(tmp_path)
        [partition] = reader.partitions()
        writer.append_many([b"3", b"4"])
        writer.cutover()
        writer.append(b"5")
        assert read(reader, partition) == [b"1", b"2"]
        assert [value for part in reader.partitions() for value in read(reader, part)] == [b"1", b"2", b"3", b"4", b"5"]


def test_the_last_batch_ends_at_the_planned_tail_for_any_record_size(tmp_path: Path) -> None:
    large = [bytes([number]) * 700_000 for number in range(4)]
    with Writer(tmp_path) as writer:
        writer.append_many(large)
        reader = reader_of(tmp_path)
        [partition] = reader.partitions()
        writer.append_many(large)
        assert read(reader, partition) == large


def test_a_range_inside_a_file(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        refs = writer.append_many([b"%d" % number for number in range(10)])
    assert read(reader_of(tmp_path), _range(tmp_path, refs[3].offset, refs[7].offset)) == [b"3", b"4", b"5", b"6"]


def test_a_partition_that_spark_made_up_for_an_empty_log(tmp_path: Path) -> None:
    from pyspark.sql.datasource import InputPartition

    reader = reader_of(tmp_path)
    assert reader.partitions() == []
    assert read(reader, InputPartition(None)) == []


def test_an_end_that_is_not_the_start_of_a_record_is_an_error(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        refs = writer.append_many([b"four"] * 10)
    with pytest.raises(GoneError, match="has changed since the read was planned"):
        read(reader_of(tmp_path), _range(tmp_path, 256, refs[5].offset + 2))


def test_a_record_over_a_readers_limit_is_an_error(tmp_path: Path) -> None:
    with Writer(tmp_path, record_bytes_max=1 << 30) as writer:
        writer.append(bytes((64 << 20) + 1))
    reader = reader_of(tmp_path)
    with pytest.raises(FullError, match="the limit is 67108864"):
        read(reader, *reader.partitions())


def test_a_log_replaced_after_planning_is_gone(tmp_path: Path) -> None:
    with Writer(tmp_path / "log") as writer:
        writer.append_many([b"some"] * 10)
    reader = reader_of(tmp_path / "log")
    [partition] = reader.partitions()
    (tmp_path / "log" / "00000001.dat").unlink()
    with Writer(tmp_path / "log") as writer:
        writer.append_many([b"other"] * 10)
    with pytest.raises(GoneError, match="another log"):
        read(reader, partition)


def test_a_file_removed_after_planning_is_gone(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append(b"1")
        writer.cutover()
        writer.append(b"2")
    reader = reader_of(tmp_path)
    first, second = (type(task)((part,)) for task in reader.partitions() for part in task.ranges)
    (tmp_path / "00000001.dat").unlink()
    with pytest.raises(GoneError):
        read(reader, first)
    assert read(reader, second) == [b"2"]
    (tmp_path / "00000002.dat").rename(tmp_path / "00000001.dat")
    with pytest.raises(GoneError, match="was removed"):
        read(reader, second)
