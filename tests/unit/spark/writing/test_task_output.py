"""The files of tasks, and those that the driver appends, without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlog
from binlog import Batch, ExternalFile, Writer
from binlog.spark.writing.task_output import files_to_append, write_task_output
from tests.support.examples import examples
from tests.support.logs import read_all

FILE_BYTES = 100


def write(path: Path, *batches: list[bytes]) -> ExternalFile | None:
    made = (Batch.from_records(records) for records in batches if records)
    return write_task_output(str(path), made, record_bytes_max=1000, file_bytes_min=FILE_BYTES)


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert write(tmp_path / "none") is None
    external_file = write(tmp_path / "one", [b""])
    assert external_file is not None
    assert (external_file.record_count, external_file.durable) == (1, False)


@pytest.mark.slow
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 12), max_size=8))
def test_large_output_becomes_a_file_and_small_output_is_merged(tmp_path: Path, counts: list[int]) -> None:
    log = tmp_path / os.urandom(6).hex()
    with Writer(log) as writer:
        output = log / "output"
        output.mkdir()
        made = [write(output / str(number), [b"%d" % number * 20] * count) for number, count in enumerate(counts)]
        externals = [each for each in made if each is not None]
        appended = files_to_append(str(output / "new"), externals)
        large = [each.durable for each in externals]
        assert large == [4 * count + 20 * count >= FILE_BYTES for count in counts if count]
        if any(large):
            assert all(each.durable for each in appended)
            assert len(appended) == sum(len(list(run)) if durable else 1 for durable, run in groupby(large))
        else:
            assert appended == externals
        writer.ingest(appended)
    assert read_all(log) == [b"%d" % number * 20 for number, count in enumerate(counts) for _ in range(count)]
    assert len(binlog.stat(log).files) == 1 + (len(appended) if any(large) else 0)
    assert list((log / "output").iterdir()) == []
    assert binlog.check(log) == []


def test_an_error_of_the_rows_iterator_is_raised_unchanged(tmp_path: Path) -> None:
    def rows() -> Iterator[Batch]:
        yield Batch.from_records([b"a"])
        raise ConnectionResetError("Spark is gone")

    with pytest.raises(ConnectionResetError, match="Spark is gone"):
        write_task_output(str(tmp_path / "x"), rows(), record_bytes_max=10, file_bytes_min=1)


@pytest.mark.spark
def test_the_first_writer_creates_the_log_directory(tmp_path: Path) -> None:
    from binlog.spark.writing.writing import make_folder

    make_folder(str(tmp_path / "new" / ".task-output" / "job"))
    assert (tmp_path / "new" / ".task-output" / "job").is_dir()
