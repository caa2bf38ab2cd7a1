"""Dividing a read: each record is in exactly one task, and filters exclude ranges."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlog
from binlog import Mode, Reader, Ref, Since, Start, Writer
from binlog.errors import GoneError
from binlog.spark.log.options import ReadOptions
from binlog.spark.schema import Field
from tests.support.examples import examples

pytestmark = pytest.mark.spark

ALL = tuple(Field(name, name, True) for name in ("source", "number", "offset", "sequence", "time", "data"))

SIZES = st.integers(0, 3000) | st.sampled_from([70_000, 2_000_000])

Row = tuple[str, int, int, int, datetime, bytes]


def write(log: Path, files: list[list[int]]) -> None:
    """Write files of records of some sizes; the last one stays open."""
    with Writer(log) as writer:
        for number, sizes in enumerate(files):
            if number:
                writer.cutover()
            for at in range(0, len(sizes), 5):
                some = [os.urandom(1) * size for size in sizes[at : at + 5]]
                writer.append_many(some, mode=Mode.FLUSH if at % 3 else Mode.SYNC)


def read(options: ReadOptions, filters: list[Any] | None = None) -> list[list[Row]]:
    """Return the rows of each task."""
    from binlog.spark.log.reading import FilteringReader

    reader = FilteringReader(options, ALL)
    assert list(reader.pushFilters(filters or [])) == (filters or [])
    return [
        [tuple(row.values()) for batch in reader.read(task) for row in batch.to_pylist()]
        for task in reader.partitions()
    ]


def by_reader(log: Path) -> list[tuple[str, int, int, int, bytes]]:
    with Reader(log) as reader:
        return [(str(log), *entry.ref, sequence, entry.data) for sequence, entry in enumerate(reader)]


@given(
    st.lists(
        st.lists(st.integers(0, 3000) | st.sampled_from([70_000, 2_000_000]), max_size=20), min_size=1, max_size=5
    ),
    st.integers(1 << 12, 1 << 18),
    st.integers(1, 20),
)
@settings(max_examples=examples(12))
def test_each_record_is_in_one_task(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], task_bytes: int, tasks_min: int
) -> None:
    log = tmp_path_factory.mktemp("tasks") / "log"
    write(log, files)
    options = ReadOptions((str(log),), partition_bytes=task_bytes, partitions_min=tasks_min)
    tasks = read(options)
    found = [row for task in tasks for row in task]
    assert [(*row[:4], row[5]) for row in found] == by_reader(log)
    assert all(tasks)
    assert [row[4] for row in found] == sorted(row[4] for row in found)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of about 8 MiB, appended over some time."""
    log: Path = tmp_path_factory.mktemp("large") / "log"
    with Writer(log) as writer:
        for number in range(4):
            if number:
                writer.cutover()
            for _ in range(160):
                writer.append_many([bytes(500)] * 100)
    return log


@contextmanager
def bytes_read() -> Iterator[list[int]]:
    """Count the bytes that this process asks the kernel to read, by proc(5)."""

    def count() -> int:
        lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
        return int(dict(line.split(": ") for line in lines)["rchar"])

    counted: list[int] = []
    before = count()
    yield counted
    counted.append(count() - before)


def filters_of(column: str, low: Any, high: Any) -> list[Any]:
    from pyspark.sql.datasource import GreaterThanOrEqual, LessThan

    return [GreaterThanOrEqual((column,), low), LessThan((column,), high)]


@pytest.mark.parametrize("column", ["sequence", "offset", "time"])
def test_a_filter_for_a_hundredth_reads_at_most_a_twentieth(large: Path, column: str) -> None:
    size = sum(file.tail for file in binlog.stat(large).files)
    options = ReadOptions((str(large),))
    rows = [row for task in read(options) for row in task]
    first, last = rows[len(rows) // 3], rows[len(rows) // 3 + len(rows) // 100]
    at = [field.name for field in ALL].index(column)
    filters = filters_of(column, first[at], last[at])
    if column == "offset":
        filters += filters_of("number", first[1], first[1] + 1)
    with bytes_read() as counted:
        found = [row for task in read(options, filters) for row in task]
    wanted = [row for row in rows if first[at] <= row[at] < last[at] and (column != "offset" or row[1] == first[1])]
    assert len(wanted) >= len(rows) // 120
    assert [row for row in found if row in wanted] == wanted
    assert counted[0] <= size // 20


def test_filters_that_match_nothing(large: Path) -> None:
    assert read(ReadOptions((str(large),)), filters_of("sequence", 10**9, 10**9 + 1)) == []
    assert read(ReadOptions((str(large),)), filters_of("number", 9, 12)) == []
    future = datetime.now(UTC) + timedelta(days=1)
    assert read(ReadOptions((str(large),)), filters_of("time", future, future + timedelta(days=1))) == []


def test_filters_on_other_columns(large: Path) -> None:
    from pyspark.sql.datasource import EqualTo, In, IsNotNull, Not, StringStartsWith

    filters = [
        IsNotNull(("sequence",)),
        Not(EqualTo(("number",), 1)),
        StringStartsWith(("source",), "/"),
        EqualTo(("data",), b"x"),
        In(("number",), (2, 3)),
    ]
    assert {row[1] for task in read(ReadOptions((str(large),)), filters) for row in task} == {2, 3}


@dataclass
class Written:
    """A log of three files of two records, and the time of the third record."""

    log: Path
    refs: list[Ref]
    time: datetime


@pytest.fixture
def written(log: Path) -> Written:
    refs = []
    with Writer(log) as writer:
        for number in range(6):
            if number in (2, 4):
                writer.cutover()
            refs.append(writer.append(b"%d" % number))
    [rows] = read(ReadOptions((str(log),)))
    return Written(log, refs, rows[2][4])


def records(written: Written, **options: Any) -> bytes:
    return b"".join(row[5] for task in read(ReadOptions((str(written.log),), **options)) for row in task)


def test_start_and_end_of_a_read(written: Written) -> None:
    refs = written.refs
    assert records(written) == b"012345"
    assert records(written, start=refs[1], end=refs[4]) == b"123"
    assert records(written, start={str(written.log): refs[5]}) == b"5"
    assert records(written, start=Since(written.time)) == b"2345"
    assert records(written, end=Since(written.time)) == b"01"
    assert records(written, start=Start.END) == b""
    assert records(written, start=refs[4], end=refs[1]) == b""
    assert records(written, include_open_file=False) == b"0123"


@pytest.mark.parametrize("option", ["start", "end"])
def test_an_offset_inside_a_record_is_refused(written: Written, option: str) -> None:
    for place in (Ref(1, 257), Ref(9, 256), {"/elsewhere": Ref(1, 256)}):
        with pytest.raises(ValueError, match=r"is not the start of a record|there is no such file|none for"):
            records(written, **{option: place})


def test_records_removed_by_retention_are_reported_or_skipped(written: Written) -> None:
    (written.log / "00000001.dat").unlink()
    with pytest.raises(GoneError, match="use failOnDataLoss=false to continue"):
        records(written, start=written.refs[0])
    assert records(written, start=written.refs[0], fail_on_data_loss=False) == b"2345"
    assert records(written) == b"2345"


def test_a_file_removed_before_its_task_is_reported_or_skipped(written: Written) -> None:
    from binlog.spark.log.reading import BatchReader

    for fail, expected in ((True, None), (False, 4)):
        options = ReadOptions((str(written.log),), fail_on_data_loss=fail)
        reader = BatchReader(options, ALL)
        [task] = reader.partitions()
        moved = (written.log / "00000001.dat").rename(written.log / "moved")
        if expected is None:
            with pytest.raises(GoneError, match="file 1 was removed"):
                list(reader.read(task))
        else:
            assert sum(batch.num_rows for batch in reader.read(task)) == expected
        moved.rename(written.log / "00000001.dat")


def test_several_logs_and_globs(written: Written, tmp_path: Path) -> None:
    other = tmp_path / "log-2"
    write(other, [[10, 10]])
    for paths in ((str(written.log), str(other)), (str(tmp_path / "log*"),)):
        rows = [row for task in read(ReadOptions(paths)) for row in task]
        assert [row[0] for row in rows] == [str(written.log)] * 6 + [str(other)] * 2
    with pytest.raises(ValueError, match="no such directory"):
        read(ReadOptions((str(tmp_path / "nothing*"),)))


def test_another_version_on_the_executor_is_an_error(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    from binlog.errors import StateError
    from binlog.spark.log.reading import BatchReader

    pickled = pickle.dumps(BatchReader(ReadOptions((str(written.log),)), ALL))
    pickle.loads(pickled)
    monkeypatch.setattr(binlog, "__version__", "9.9")
    with pytest.raises(StateError, match=r"the driver has binlog 0\.1\.0, and this executor 9\.9"):
        pickle.loads(pickled)


@pytest.mark.parametrize(
    ("mib", "cores", "task_mib"),
    [
        (1024, None, 128),
        (1024, "2", 512),
        (10240, "2", 512),
        (600, "2", 300),
        (200, "2", 128),
        (1024, "16", 128),
        (1024, "0", 128),
        (1024, "many", 128),
    ],
)
def test_a_large_read_on_few_cores_has_larger_tasks(
    monkeypatch: pytest.MonkeyPatch, mib: int, cores: str | None, task_mib: int
) -> None:
    from binlog.spark.log.snapshot import FileRange
    from binlog.spark.tasks import target_bytes
    from binlog.spark.worker import CORES

    monkeypatch.delenv(CORES, raising=False)
    if cores is not None:
        monkeypatch.setenv(CORES, cores)
    parts = [FileRange("log", 1, 0, mib << 20, None)]
    assert target_bytes(parts, ReadOptions(("log",))) == task_mib << 20
    assert target_bytes(parts, ReadOptions(("log",), partition_bytes=1 << 20)) == 1 << 20
    assert target_bytes(parts, ReadOptions(("log",), partitions_min=mib)) == 1 << 20
