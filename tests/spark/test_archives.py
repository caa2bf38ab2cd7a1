"""A directory that mixes files and archives, read by several tasks, in batch and as a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binlog import Mode, Writer
from tests.spark.test_reading import log_records, rows
from tests.support.archives import archive_path, archived, fill, frames_of, small_frames

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    small_frames(monkeypatch)


def _reader(spark: Any, **options: str) -> Any:
    return spark.read.format("binlog").options(**options)


def test_several_tasks_read_files_and_archives_alike(spark: Any, log: Path) -> None:
    fill(log, files=3, records=2000)
    expected = log_records(log)
    assert archived(log, keep_last=1) == [1, 2]
    frame = _reader(spark, maxPartitionBytes="20k").load(str(log))
    assert frame.rdd.getNumPartitions() > 6
    assert rows(frame) == expected
    assert frame.where("sequence between 2500 and 2600").count() == 101
    assert _reader(spark, startingPosition="2:256", includeOpenFile="false").load(str(log)).count() == 4000


def test_a_damaged_frame_is_a_row(spark: Any, log: Path) -> None:
    fill(log, files=2, records=2000)
    archived(log)
    place, start, end = frames_of(archive_path(log))[3]
    data = bytearray(archive_path(log).read_bytes())
    data[place + 30] ^= 1
    archive_path(log).write_bytes(data)
    frame = _reader(spark, mode="PERMISSIVE", maxPartitionBytes="20k").load(str(log))
    [damage] = frame.where("damage is not null").collect()
    assert (damage.number, damage.offset, damage.damage.end) == (1, start, end)
    assert frame.where(f"number = 1 and offset >= {start} and offset < {end} and damage is null").count() == 0
    assert frame.where("number = 2").count() == 2000


def test_a_stream_resumes_in_files_that_became_archives(spark: Any, log: Path, tmp_path: Path) -> None:
    fill(log, files=2)
    fresh = tmp_path / "out"

    def run() -> int:
        query = (
            spark.readStream.format("binlog")
            .option("maxRecordsPerTrigger", "150")
            .load(str(log))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(fresh))
        )
        query.awaitTermination()
        return int(spark.read.parquet(str(fresh)).count())

    assert run() == 401
    archived(log)
    with Writer(log) as writer:
        writer.append_many([b"more"] * 300, mode=Mode.FLUSH)
        writer.cutover()
    archived(log)
    assert run() == 701
    assert spark.read.parquet(str(fresh)).distinct().count() == 701
