"""Planning and reading archives, without a Java virtual machine; marked `spark` for its packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Reader, Writer
from binlog.errors import CorruptError
from binlog.spark.log.options import ReadOptions
from binlog.spark.schema import Field
from tests.support.archives import archive_path, archived, fill, frames_of, small_frames
from tests.unit.spark.log.test_batch_reader import read

pytestmark = pytest.mark.spark

FIELDS = tuple(Field(name, name, True) for name in ("number", "offset", "sequence", "data", "damage"))


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    small_frames(monkeypatch)


def reader_of(log: Path, **options: Any) -> Any:
    from binlog.spark.log.reading import BatchReader

    return BatchReader(ReadOptions((str(log),), **options), FIELDS)


def rows(log: Path, **options: Any) -> list[dict[str, Any]]:
    reader = reader_of(log, **options)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_archives_are_split_by_frame_among_tasks(log: Path) -> None:
    expected = fill(log, files=2, records=4000)
    archived(log, keep_last=1)
    reader = reader_of(log, partition_bytes=10_000)
    tasks = reader.partitions()
    starts = {256, *(start for _, start, _ in frames_of(archive_path(log)))}
    first = [part for task in tasks for part in task.ranges if part.number == 1]
    assert len(first) > 5
    assert {part.start for part in first} <= starts
    assert [record for task in tasks for record in read(reader, task)] == expected


@pytest.mark.parametrize("index", [True, False])
def test_a_damaged_frame_is_a_row_in_permissive_mode_and_otherwise_an_error(tmp_path: Path, index: bool) -> None:
    fill(tmp_path, files=1, records=2000)
    before = rows(tmp_path)
    archived(tmp_path)
    if not index:
        (tmp_path / "00000001.idx").unlink()
    place, start, end = frames_of(archive_path(tmp_path))[2]
    data = bytearray(archive_path(tmp_path).read_bytes())
    data[place + 30] ^= 1
    archive_path(tmp_path).write_bytes(data)
    with pytest.raises(CorruptError):
        rows(tmp_path)
    for size in (1 << 30, 9000):
        found = rows(tmp_path, permissive=True, partition_bytes=size)
        [damage] = [row for row in found if row["damage"] is not None]
        assert (damage["number"], damage["offset"], damage["damage"]["end"]) == (1, start, end)
        places = [(row["number"], row["offset"], row["data"]) for row in found if row["damage"] is None]
        lost = range(start, end)
        assert places == [
            (row["number"], row["offset"], row["data"])
            for row in before
            if row["number"] != 1 or row["offset"] not in lost
        ]


def test_an_archive_without_its_table_is_one_damaged_range(tmp_path: Path) -> None:
    fill(tmp_path, files=2)
    archived(tmp_path)
    data = bytearray(archive_path(tmp_path).read_bytes())
    data[-20] ^= 1
    data[frames_of(archive_path(tmp_path))[0][0]] ^= 1  # otherwise the frames replace the table
    archive_path(tmp_path).write_bytes(data)
    tail = binlog.stat(tmp_path).files[0].tail
    for size in (1 << 30, 1000):
        found = rows(tmp_path, permissive=True, partition_bytes=size)
        [damage] = [row for row in found if row["damage"] is not None]
        assert (damage["number"], damage["offset"], damage["damage"]["end"]) == (1, 256, tail)
        assert {row["number"] for row in found if row["damage"] is None} == {2, 3}


def test_a_plan_made_before_a_file_was_archived_is_read_after(log: Path) -> None:
    expected = fill(log)
    reader = reader_of(log)
    tasks = reader.partitions()
    archived(log)
    assert [record for task in tasks for record in read(reader, task)] == expected


def test_a_stream_continues_over_archives(log: Path) -> None:
    from binlog.spark.log.following import StreamReader

    expected = fill(log, files=2)
    reader = StreamReader(ReadOptions((str(log),), records_per_trigger=50), FIELDS)
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    found: list[bytes] = []
    for batch in range(100):
        end = reader.latestOffset(start, limit)
        if end == start:
            break
        if batch == 2:
            archived(log)
            assert reader.latestOffset(start, limit) == end
        found += [record for task in reader.partitions(start, end) for record in read(reader, task)]
        start = json.loads(json.dumps(end))
    assert found == expected
    with Writer(log) as writer:
        writer.append(b"more")
        writer.cutover()
    archived(log)
    end = reader.latestOffset(start, limit)
    assert [record for task in reader.partitions(start, end) for record in read(reader, task)] == [b"more"]
    with Reader(log) as reading:
        assert [entry.data for entry in reading] == [*expected, b"more"]


def test_filters_exclude_archives_and_parts_of_them(log: Path) -> None:
    fill(log, files=2, records=2000)
    archived(log)
    from binlog.spark.log.partitions import WantedRecords

    wanted = WantedRecords({"sequence": (2100, 2200)})
    reader = reader_of(log)
    reader._wanted = wanted
    parts = [part for task in reader.partitions() for part in task.ranges]
    assert [part.number for part in parts] == [2]
    assert parts[0].end - parts[0].start < binlog.stat(log).files[1].tail // 2
    with Reader(log, binlog.Sequence(2100)) as reading:
        assert parts[0].start <= next(reading).ref.offset < parts[0].end
