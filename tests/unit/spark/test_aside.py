"""What tasks write aside, and the driver reads: as plain calls, without Spark."""

from __future__ import annotations

import os
import resource
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog import Batch
from binlog.errors import AccessError, CorruptError, FullError
from binlog.spark import aside
from binlog.spark.aside import Aside, read_aside, take_aside, write_aside

LIMIT = 64 << 20


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "0-x")


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at a time is a few records."""
    monkeypatch.setattr(aside, "_PIECE_BYTES", 40)


def write(path: str, *batches: list[bytes]) -> tuple[Aside, ...]:
    return write_aside(path, map(Batch.from_records, batches), record_bytes_max=LIMIT)


def read(*files: Aside) -> list[bytes]:
    return [record for file in files for batch in read_aside(file) for record in batch]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.binary(max_size=60), max_size=5), max_size=5))
def test_what_is_read_is_what_was_written(tmp_path: Path, pieces: None, batches: list[list[bytes]]) -> None:
    path = tmp_path / uuid.uuid4().hex
    files = write(str(path), *batches)
    records = [record for batch in batches for record in batch]
    assert sum(file.count for file in files) == len(records)
    assert [file.size for file in files] == [Path(file.path).stat().st_size for file in files]
    assert read(*files) == records


def test_a_record_larger_than_what_is_read_at_a_time(path: str) -> None:
    records = [b"a", b"b" * (3 << 20), b"c"]
    [file] = write(path, records)
    batches = [list(batch) for batch in read_aside(file)]  # each while it is good
    assert [record for batch in batches for record in batch] == records
    assert len(batches) > 1


def test_a_record_larger_than_the_limit(path: str) -> None:
    with pytest.raises(FullError, match="a record of 5 bytes; the limit is 4"):
        write_aside(path, [Batch.from_records([b"12345"])], record_bytes_max=4)


@pytest.mark.parametrize("missing", [1, 7, 60, 104])
def test_a_file_that_is_shorter_than_it_was(path: str, pieces: None, missing: int) -> None:
    [known] = write(path, [b"x" * 22] * 4)
    with open(known.path, "r+b") as file:
        file.truncate(known.size - missing)
    with pytest.raises(CorruptError, match="the 104 bytes that a task wrote are not there any more"):
        read(known)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x00\x00\x01\x00", b"\x00\x00\x00\x17"])
def test_lengths_that_lead_elsewhere(path: str, length: bytes) -> None:
    [known] = write(path, [b"x" * 22] * 4)
    with open(known.path, "r+b") as file:
        file.seek(26)
        file.write(length)
    with pytest.raises(CorruptError):
        read(known)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 103), st.integers(1, 104), st.sampled_from([b"\0", b"\xff", b"y"]))
def test_bytes_that_a_disk_has_others_for(tmp_path: Path, pieces: None, start: int, size: int, other: bytes) -> None:
    [known] = write(str(tmp_path / uuid.uuid4().hex), [b"x" * 22] * 4)
    path = Path(known.path)
    before = path.read_bytes()
    after = (before[:start] + other * size)[:104].ljust(104, b"z")[: start + size] + before[start + size :]
    path.write_bytes(after)
    if after == before:
        assert len(read(known)) == 4
    else:
        with pytest.raises(CorruptError):
            read(known)


@pytest.fixture
def small_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_no_space_is_told(path: str) -> None:
    with pytest.raises(FullError, match="there is no space for what a task writes"):
        write(path, [b"x" * 60], [b"y" * 60])


def test_what_cannot_be_opened_is_told(path: str) -> None:
    with pytest.raises(AccessError, match="No such file"):
        read(Aside(path, 1, 5, 0))
    write(path, [b"a"])
    with pytest.raises(AccessError, match="File exists"):
        write(path, [b"a"])


def test_a_file_is_as_small_as_batches_allow_and_goes_once_it_was_taken(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "_FILE_BYTES", 50)
    files = write(path, [b"a" * 20, b"b" * 20], [b"c" * 60], [b"d"])
    assert [file.count for file in files] == [3, 1]
    taken = take_aside(files)
    assert [list(next(taken)), list(next(taken))] == [[b"a" * 20, b"b" * 20, b"c" * 60], [b"d"]]
    assert [os.path.exists(file.path) for file in files] == [False, True]
    assert list(taken) == []
    assert not any(os.path.exists(file.path) for file in files)


def test_an_error_of_whom_the_rows_come_from_is_left_as_it_is(path: str) -> None:
    def rows() -> Iterator[Batch]:
        yield Batch.from_records([b"a"])
        raise ConnectionResetError("Spark is gone")

    with pytest.raises(ConnectionResetError, match="Spark is gone"):
        write_aside(path, rows(), record_bytes_max=LIMIT)
