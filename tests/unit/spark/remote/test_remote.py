"""Closed files in remote file systems, copied in pieces; marked `spark` for its packages."""

from __future__ import annotations

import os
import pickle
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Mode, Reader, Ref, Writer
from binlog.errors import AccessError, CorruptError, GoneError, StateError
from binlog.spark.log.options import ReadOptions, parse_options
from binlog.spark.schema import Field
from tests.support.archives import archive_path, archived

pytestmark = pytest.mark.spark

URL = "memory://bucket/log"
FIELDS = tuple(Field(name, name, True) for name in ("number", "offset", "sequence", "data"))

Row = tuple[int, int, int, bytes]


@pytest.fixture(autouse=True)
def bucket() -> Iterator[Any]:
    import fsspec

    files = fsspec.filesystem("memory")
    files.mkdirs("/bucket/log")
    yield files
    files.rm("/bucket", recursive=True)


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for copies; none may be left in it."""
    place = tmp_path / "copies"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    assert list(place.iterdir()) == []


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two closed files with records of all sizes, and an open one."""
    chance = random.Random(1)
    with Writer(tmp_path / "log") as writer:
        for _ in range(2):
            for _ in range(30):
                size = chance.choice((0, 10, 300, 5000, 200_000))
                writer.append_many([chance.randbytes(size) for _ in range(5)], mode=Mode.FLUSH)
            writer.cutover()
        writer.append(b"in the open file")
    return tmp_path / "log"


def upload(log: Path, bucket: Any, *, open_too: bool = False) -> list[Row]:
    """Upload the closed files, and return their records."""
    closed = {file.number for file in binlog.stat(log).files if file.closed or open_too}
    for path in log.iterdir():
        if path.suffix in (".dat", ".idx", ".zst") and int(path.name[:8]) in closed:
            bucket.pipe_file(f"/bucket/log/{path.name}", path.read_bytes())
    with Reader(log) as reader:
        rows = [(*entry.ref, sequence, entry.data) for sequence, entry in enumerate(reader)]
    return [row for row in rows if row[0] in closed]


def reader_of(**options: str) -> Any:
    from binlog.spark.log.reading import BatchReader

    return BatchReader(parse_options({"path": URL, **options}), FIELDS)


def read(reader: Any, partition: Any) -> list[Row]:
    """Read the rows of a task, pickled as for another process."""
    reader, partition = pickle.loads(pickle.dumps((reader, partition)))
    return [tuple(row.values()) for batch in reader.read(partition) for row in batch.to_pylist()]


def read_all(**options: str) -> list[Row]:
    reader = reader_of(**options)
    return [row for partition in reader.partitions() for row in read(reader, partition)]


@pytest.mark.parametrize("size", ["128m", "700k", "100k", "1"])
def test_each_record_is_read_once_for_any_task_size(log: Path, bucket: Any, size: str) -> None:
    rows = upload(log, bucket)
    assert read_all(maxPartitionBytes=size) == rows
    assert (len(reader_of(maxPartitionBytes=size).partitions()) > 15) is (size != "128m")


def test_a_task_copies_its_part_of_a_file_and_little_more(
    log: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from binlog.moving.remote_directory import RemoteFile

    upload(log, bucket)
    reader = reader_of(maxPartitionBytes="1m")
    copied = 0
    pieces = RemoteFile.pieces

    def counting(self: Any, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        nonlocal copied
        for offset, data in pieces(self, start, end):
            copied += len(data)
            yield offset, data

    monkeypatch.setattr(RemoteFile, "pieces", counting)
    tasks = reader.partitions()
    planned, copied = copied, 0
    assert len(tasks) > 10
    read(reader, tasks[len(tasks) // 2])
    assert copied < 3 << 20
    assert planned < sum(bucket.size(path) for path in bucket.ls("/bucket/log", detail=False))


@pytest.mark.parametrize("index", ["none", "of another file", "cut short", "spoilt in the middle"])
def test_everything_is_read_without_a_valid_index(log: Path, bucket: Any, index: str) -> None:
    rows = upload(log, bucket)
    one, two = (f"/bucket/log/0000000{number}.idx" for number in (1, 2))
    data = bytearray(bucket.cat_file(one))
    if index == "none":
        bucket.rm(one)
    elif index == "of another file":
        bucket.pipe_file(one, bucket.cat_file(two))
    elif index == "cut short":
        bucket.pipe_file(one, bytes(data[: len(data) // 64 * 32]))
    else:
        middle = len(data) // 64 * 32
        data[middle : middle + 16] = b"\xff" * 16
        bucket.pipe_file(one, bytes(data))
    assert read_all(maxPartitionBytes="100k") == rows
    # As in a plan made with a valid index, and as a position in the middle of a range.
    middle_row = rows[140]
    assert read_all(startingPosition=f"{middle_row[0]}:{middle_row[1]}", maxPartitionBytes="100k") == rows[140:]


def test_an_index_removed_after_planning(log: Path, bucket: Any) -> None:
    rows = upload(log, bucket)
    reader = reader_of(maxPartitionBytes="300k")
    tasks = reader.partitions()
    bucket.rm("/bucket/log/00000001.idx")
    assert [row for task in tasks for row in read(reader, task)] == rows


def test_holes_are_never_read_as_records(tmp_path: Path, bucket: Any) -> None:
    # A hole reads as a chain of empty records, and these records continue with one.
    with Writer(tmp_path) as writer:
        for _ in range(500):
            writer.append_many([bytes(1020)] * 4, mode=Mode.FLUSH)
        writer.cutover()
    rows = upload(tmp_path, bucket)
    reader = reader_of(maxPartitionBytes="500k")
    tasks = reader.partitions()
    assert len(tasks) > 3
    bucket.rm("/bucket/log/00000001.idx")
    assert [row for task in tasks for row in read(reader, task)] == rows
    assert read_all(startingPosition=f"1:{rows[1500][1]}") == rows[1500:]


def test_positions(log: Path, bucket: Any) -> None:
    rows = upload(log, bucket)
    first, last = rows[17], rows[231]
    found = read_all(startingPosition=f"{first[0]}:{first[1]}", endingPosition=f"{last[0]}:{last[1]}")
    assert found == rows[17:231]
    assert read_all(endingPosition="3:256") == rows
    assert read_all(startingPosition="3:256") == []
    assert read_all(startingPosition="latest") == []
    assert read_all(startingPosition="2020-01-01T00:00:00Z") == rows
    assert read_all(startingPosition="2999-01-01T00:00:00Z") == []
    assert read_all(endingPosition="2999-01-01T00:00:00Z") == rows
    assert read_all(endingPosition=f'{{"{URL}":{{"number":2,"offset":256}}}}') == [row for row in rows if row[0] == 1]
    with pytest.raises(ValueError, match=f"^binlog: {URL}: .*is not the start of a record"):
        read_all(startingPosition=f"1:{first[1] + 1}")
    with pytest.raises(ValueError, match="4:256 is not in a closed file; they end at 2:"):
        read_all(startingPosition="4:256")


def test_an_open_file_is_refused_or_skipped(log: Path, bucket: Any) -> None:
    rows = upload(log, bucket, open_too=True)
    with pytest.raises(StateError, match=f"{URL}: file 3 is open.*includeOpenFile=false"):
        reader_of().partitions()
    assert read_all(includeOpenFile="false") == [row for row in rows if row[0] < 3]


def test_no_closed_file(bucket: Any) -> None:
    assert read_all() == []


def test_a_file_that_is_missing_between_others(log: Path, bucket: Any) -> None:
    with Writer(log) as writer:
        writer.cutover()
    upload(log, bucket)
    bucket.rm("/bucket/log/00000002.dat")
    with pytest.raises(CorruptError, match=f"^{URL}/00000001.dat at offset 0: .*its next file, 2, is missing"):
        reader_of().partitions()


def test_a_file_removed_after_planning(log: Path, bucket: Any) -> None:
    upload(log, bucket)
    reader = reader_of()
    tasks = reader.partitions()
    bucket.rm("/bucket/log/00000001.dat")
    with pytest.raises(GoneError, match=f"^{URL}: file 1 was removed since the read was planned"):
        [read(reader, task) for task in tasks]


def test_a_file_of_another_log_in_its_place(log: Path, bucket: Any, tmp_path: Path) -> None:
    upload(log, bucket)
    reader = reader_of()
    [task] = reader.partitions()
    with Writer(tmp_path / "other") as writer:
        writer.append(b"x" * 30_000_000)
        writer.cutover()
    bucket.pipe_file("/bucket/log/00000001.dat", (tmp_path / "other" / "00000001.dat").read_bytes())
    with pytest.raises(GoneError, match=f"^{URL}: file 1 now belongs to another log"):
        read(reader, task)


@pytest.mark.parametrize("indexed", [True, False])
def test_damage_is_reported_with_its_url(log: Path, bucket: Any, indexed: bool) -> None:
    rows = upload(log, bucket)
    place = rows[100]
    data = bytearray(bucket.cat_file("/bucket/log/00000001.dat"))
    data[place[1]] ^= 0xFF
    bucket.pipe_file("/bucket/log/00000001.dat", bytes(data))
    if not indexed:
        bucket.rm("/bucket/log/00000001.idx")
    with pytest.raises(CorruptError, match=f"^{URL}/00000001.dat at offset") as caught:
        read_all(maxPartitionBytes="300k")
    assert caught.value.offset <= place[1]
    assert caught.value.path == f"{URL}/00000001.dat"


def test_a_damaged_header(log: Path, bucket: Any) -> None:
    upload(log, bucket)
    data = bucket.cat_file("/bucket/log/00000002.dat")
    bucket.pipe_file("/bucket/log/00000002.dat", bytes(256) + data[256:])
    with pytest.raises(CorruptError, match=f"^{URL}/00000002.dat at offset 0"):
        reader_of().partitions()


def test_a_file_that_another_program_added_to_after_it_was_closed(log: Path, bucket: Any) -> None:
    path = log / "00000002.dat"
    data = bytearray(path.read_bytes())
    data += b"\0\0\0\x05added"
    data[8:16] = len(data).to_bytes(8, "big")
    path.write_bytes(data)
    added = (2, len(data) - 9, None, b"added")
    rows = [row for row in upload(log, bucket) if row[3] != b"added"]
    assert read_all(maxPartitionBytes="300k") == [*rows, added]


@pytest.mark.parametrize("size", ["128m", "100k"])
@pytest.mark.parametrize("indexed", [True, False])
def test_archives_are_read_as_the_files_that_they_were(log: Path, bucket: Any, size: str, indexed: bool) -> None:
    assert archived(log) == [1, 2]
    rows = upload(log, bucket)
    if not indexed:
        bucket.rm("/bucket/log/00000001.idx")
    assert read_all(maxPartitionBytes=size) == rows
    assert read_all(startingPosition=f"{rows[140][0]}:{rows[140][1]}") == rows[140:]
    assert read_all(startingPosition="2999-01-01T00:00:00Z") == ([] if indexed else rows)
    assert len(reader_of(maxPartitionBytes="100k").partitions()) == 2


def test_the_driver_copies_little_of_an_archive(log: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    archived(log)
    upload(log, bucket)
    asked: list[int] = []
    cat = type(bucket).cat_file

    def counting(self: Any, path: str, start: int, end: int) -> bytes:
        asked.append(end - start)
        return bytes(cat(self, path, start=start, end=end))

    monkeypatch.setattr(type(bucket), "cat_file", counting)
    reader_of().partitions()
    assert asked == [4096, 4096]


def test_a_file_archived_after_planning(log: Path, bucket: Any) -> None:
    rows = upload(log, bucket)
    reader = reader_of(maxPartitionBytes="300k")
    tasks = reader.partitions()
    archived(log)
    bucket.rm("/bucket/log/00000001.dat")
    upload(log, bucket)
    assert len(tasks) > 5
    assert [row for task in tasks for row in read(reader, task)] == rows


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("moment", range(8))
def test_a_file_that_becomes_an_archive_at_any_moment(
    log: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch, number: int, moment: int
) -> None:
    rows = upload(log, bucket)
    archived(log)
    path = f"/bucket/log/{number:08d}.dat"
    asked = 0

    def then(question: Any) -> Any:
        def query(self: Any, name: str, **bounds: int) -> Any:
            nonlocal asked
            if name.endswith(path):
                asked += 1
                if asked == moment:
                    bucket.pipe_file(f"{path}.zst", archive_path(log, number).read_bytes())
                    bucket.rm(path)
            return question(self, name, **bounds)

        return query

    for name in ("cat_file", "size"):
        monkeypatch.setattr(type(bucket), name, then(getattr(type(bucket), name)))
    assert read_all(maxPartitionBytes="2m") == rows
    assert asked >= moment


def test_a_damaged_archive_is_reported_with_its_url(log: Path, bucket: Any) -> None:
    archived(log)
    upload(log, bucket)
    path = "/bucket/log/00000001.dat.zst"
    data = bytearray(bucket.cat_file(path))
    data[5000] ^= 1
    bucket.pipe_file(path, bytes(data))
    with pytest.raises(CorruptError, match=f"^{URL}/00000001.dat.zst at offset 256: "):
        read_all()
    bucket.pipe_file(path, bytes(data[: len(data) // 2]))
    with pytest.raises(CorruptError, match=f"^{URL}/00000001.dat.zst at offset 256: it does not end with a table"):
        read_all()
    bucket.pipe_file(path, bytes(data[:100]))
    with pytest.raises(CorruptError, match=f"^{URL}/00000001.dat.zst at offset 0: the frame of the header is damaged"):
        read_all()


def test_unreachable_urls_are_errors(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from binlog.moving.remote_directory import RemoteDirectory

    with pytest.raises(AccessError, match=r"^memory://none/here: No such file or directory"):
        RemoteDirectory("memory://none/here").names()
    bucket.pipe_file("/bucket/file", b"")
    with pytest.raises(AccessError, match=r"^memory://bucket/file: listing it: .*is not a directory"):
        RemoteDirectory("memory://bucket/file").names()
    with pytest.raises(ValueError, match=r"^binlog: 'dav://x': neither pyarrow nor fsspec supports it"):
        RemoteDirectory("dav://x")
    with pytest.raises(ValueError, match=r"^binlog: 's3://b/x': Unexpected query parameter"):
        RemoteDirectory("s3://b/x?color=red")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match="fsspec may support it, but is not installed"):
        RemoteDirectory("memory://bucket")


def test_an_error_of_the_file_system_is_reported(log: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(log, bucket)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Forbidden")

    monkeypatch.setattr(type(bucket), "cat_file", refuse)
    with pytest.raises(AccessError, match=f"^{URL}/00000001.dat: reading: .*Forbidden"):
        reader_of().partitions()


def test_a_read_of_local_and_remote_logs(log: Path, bucket: Any) -> None:
    rows = upload(log, bucket)
    from binlog.spark.log.reading import BatchReader

    options = replace(ReadOptions((URL, str(log))), end=Ref(3, 256))
    reader = BatchReader(options, (Field("source", "source", True), *FIELDS))
    found = [row for partition in reader.partitions() for row in read(reader, partition)]
    assert found == [*((URL, *row) for row in rows), *((str(log), *row) for row in rows)]


def test_credentials_in_a_url_are_never_shown() -> None:
    from binlog.moving.remote_directory import redacted

    assert redacted("s3://key:secret@bucket/log?region=eu-west-1&external_id=x") == "s3://bucket/log"
    assert redacted("https://host/a@b") == "https://host/a@b"


def test_a_stream_is_refused() -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from binlog.spark.source import BinlogDataSource

    schema = StructType([StructField("offset", LongType())])
    with pytest.raises(ValueError, match=f"^binlog: cannot follow '{URL}': .*closed files only"):
        BinlogDataSource({"path": URL}).streamReader(schema)


def test_a_file_truncated_while_it_is_copied(log: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(log, bucket)
    reader = reader_of()
    [task] = reader.partitions()
    read_bytes = type(bucket).cat_file

    def cut(self: Any, path: str, start: int, end: int) -> bytes:
        data = read_bytes(self, path, start=start, end=end)
        return bytes(data if end <= 4096 else data[:-1] if len(data) > 1 else b"")

    monkeypatch.setattr(type(bucket), "cat_file", cut)
    with pytest.raises(GoneError, match=f"^{URL}/00000001.dat now ends at"):
        read(reader, task)


def test_no_space_for_a_copy(log: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from binlog.errors import FullError

    upload(log, bucket)

    def full(*_: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(FullError, match=f"^{URL}: cannot write a copy of file 1: .*No space left"):
        reader_of().partitions()
