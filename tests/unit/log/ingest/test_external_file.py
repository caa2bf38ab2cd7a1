"""External files: writing them, and reading them back after every change to the file."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog import Batch, ExternalFile, ExternalFileWriter
from binlog.errors import AccessError, CorruptError, FullError
from binlog.format.checksums import crc32c
from binlog.format.index_file import ENTRY_BYTES, parse_entry
from binlog.log.ingest import external_file as module
from tests.support.examples import examples


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "0-x")


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """One read is a few records."""
    monkeypatch.setattr(module, "_READ_BYTES", 40)


def write(path: str, *batches: list[bytes], durable_from: int = 0, record_bytes_max: int = 1 << 30) -> ExternalFile:
    with ExternalFileWriter(path, durable_from=durable_from, record_bytes_max=record_bytes_max) as writer:
        for records in batches:
            writer.append(Batch.from_records(records))
        return writer.finish()


def read(external: ExternalFile) -> list[bytes]:
    return [record for batch in external.read() for record in batch]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.binary(max_size=60), max_size=5), max_size=5))
def test_an_external_file_reads_back_the_records_written(
    tmp_path: Path, pieces: None, batches: list[list[bytes]]
) -> None:
    path = tmp_path / uuid.uuid4().hex
    external = write(str(path), *batches)
    records = [record for batch in batches for record in batch]
    assert external.record_count == len(records)
    assert external.size == sum(4 + len(record) for record in records)
    assert external.end == (path.stat().st_size or 256)
    assert read(external) == records
    assert pickle.loads(pickle.dumps(external)) == external


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 300)), max_size=6))
def test_index_entries_cover_all_records(tmp_path: Path, sizes: list[tuple[int, int]]) -> None:
    path = tmp_path / uuid.uuid4().hex
    external = write(str(path), *([b"x" * size] * count for size, count in sizes))
    data = path.read_bytes() or bytes(256)
    assert external.crc == crc32c(data[256:])
    at, sequence = 256, 0
    for start in range(0, len(external.entries), ENTRY_BYTES):
        entry = parse_entry(external.entries, 0, start)
        assert entry is not None
        assert (entry.offset, entry.sequence) == (at, sequence)
        assert entry.range_crc == crc32c(data[at : entry.end])
        assert entry.range_bytes <= 1 << 16
        while at < entry.end:
            at += 4 + int.from_bytes(data[at : at + 4], "big")
            sequence += 1
        assert at == entry.end
    assert (at, sequence) == (external.end, external.record_count)


def test_a_record_larger_than_one_read(path: str) -> None:
    records = [b"a", b"b" * (3 << 20), b"c"]
    external = write(path, records)
    batches = [list(batch) for batch in external.read()]  # each while it is valid
    assert [record for batch in batches for record in batch] == records
    assert len(batches) > 1


def test_a_record_larger_than_the_limit(path: str) -> None:
    with pytest.raises(FullError, match="a record of 5 bytes; the limit is 4"):
        write(path, [b"12345"], record_bytes_max=4)


def test_an_external_file_is_durable_from_a_size_on(path: str) -> None:
    assert not write(path, [b"x" * 60], durable_from=65).durable
    assert write(f"{path}.2", [b"x" * 60], durable_from=64).durable
    large = write(f"{path}.3", *([b"x" * (1 << 20)] for _ in range(20)), durable_from=1 << 20)
    assert large.durable
    assert len(read(large)) == 20


@pytest.mark.parametrize("missing", [1, 7, 60, 104])
def test_a_truncated_external_file_raises(path: str, pieces: None, missing: int) -> None:
    known = write(path, [b"x" * 22] * 4)
    with open(known.path, "r+b") as file:
        file.truncate(known.end - missing)
    with pytest.raises(CorruptError, match="some of the 104 bytes that were written are missing"):
        read(known)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x00\x00\x01\x00", b"\x00\x00\x00\x17"])
def test_changed_lengths_raise(path: str, length: bytes) -> None:
    known = write(path, [b"x" * 22] * 4)
    with open(known.path, "r+b") as file:
        file.seek(256 + 26)
        file.write(length)
    with pytest.raises(CorruptError):
        read(known)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 103), st.integers(1, 104), st.sampled_from([b"\0", b"\xff", b"y"]))
def test_changed_bytes_raise(tmp_path: Path, pieces: None, start: int, size: int, other: bytes) -> None:
    known = write(str(tmp_path / uuid.uuid4().hex), [b"x" * 22] * 4)
    path = Path(known.path)
    head, before = path.read_bytes()[:256], path.read_bytes()[256:]
    after = (before[:start] + other * size)[:104].ljust(104, b"z")[: start + size] + before[start + size :]
    path.write_bytes(head + after)
    if after == before:
        assert len(read(known)) == 4
    else:
        with pytest.raises(CorruptError):
            read(known)


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """Limit the size only for the product: pytest may be writing to a file, too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (356, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_raises_full_error(path: str) -> None:
    with pytest.raises(FullError, match="File too large while writing an external file"), small_files():
        write(path, [b"x" * 60], [b"y" * 60])


def test_a_missing_external_file_raises(path: str) -> None:
    with pytest.raises(AccessError, match="No such file"):
        read(ExternalFile(path, 1, 261, 0, durable=True, entries=b""))
    write(path, [b"a"])
    with pytest.raises(AccessError, match="File exists"):
        write(path, [b"a"])


def test_an_unfinished_external_file_leaves_no_descriptor(path: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with ExternalFileWriter(path) as writer:
        writer.append(Batch.from_records([b"a"]))
        assert writer.size == 5
    assert len(os.listdir("/proc/self/fd")) == before
