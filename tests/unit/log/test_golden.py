"""Bytes that an earlier build wrote are read, and the same values are written as the same bytes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import binlog
from binlog import Batch, Writer
from binlog.format.archive_file import START_BYTES, pack_end, pack_start
from binlog.format.checksums import pack_text
from binlog.format.index_file import ENTRY_BYTES, HEADER_BYTES, IndexEntry, entry_seed, pack_header, parse_entry
from binlog.format.log_header import parse_log_header
from binlog.log.append.producers import read_producer_batch
from binlog.log.archive.archive_reader import ArchiveReader
from binlog.log.directory import LogDirectory
from binlog.log.ingest.ingest_record import read_ingest
from stress.crash.flips.logs import SOURCE
from tests.support.golden_log import ARCHIVES, Golden, make, unpack
from tests.support.indexes import check_entries
from tests.support.logs import read_all

LOGS = ("archive", "producer", "ingest", "set-aside")


@pytest.fixture(params=ARCHIVES, ids=[path.name.removesuffix(".tar.xz") for path in ARCHIVES])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Golden]:
    return unpack(request.param, tmp_path)


def _files(folder: Path, pattern: str) -> list[Path]:
    found = sorted(path for name in LOGS for path in (folder / name).glob(pattern))
    assert found
    return found


@pytest.mark.parametrize("name", LOGS)
def test_a_golden_log_is_read_and_appended_to(tmp_path: Path, golden: dict[str, Golden], name: str) -> None:
    log, expected = tmp_path / name, golden[name]
    told = ["quarantined"] if name == "set-aside" else []
    assert read_all(log) == expected.records
    assert [problem.rule for problem in binlog.check(log)] == told
    with Writer(log) as writer:
        if expected.sequence is not None:
            last = writer.last_producer_batch(SOURCE)
            assert last is not None
            assert last.sequence == expected.sequence
            assert (
                writer.append_idempotent([Batch.from_records([b"again"])], producer=SOURCE, sequence=last.sequence)
                is None
            )
        writer.append(b"appended")
    assert read_all(log) == [*expected.records, *expected.later, b"appended"]
    assert [problem.rule for problem in binlog.check(log)] == told
    assert binlog.repair(log) == []


@pytest.mark.slow
def test_an_archive_that_exists_is_not_overwritten() -> None:
    before = ARCHIVES[0].read_bytes()
    with pytest.raises(FileExistsError):
        make(ARCHIVES[0])
    assert ARCHIVES[0].read_bytes() == before


def test_headers_are_written_as_the_same_bytes(tmp_path: Path, golden: dict[str, Golden]) -> None:
    for path in [*_files(tmp_path, "*.dat"), *_files(tmp_path, ".ingest.*")]:
        data = path.read_bytes()[:256]
        assert parse_log_header(data, path=str(path)).pack() == data


def test_indexes_are_written_as_the_same_bytes(tmp_path: Path, golden: dict[str, Golden]) -> None:
    for path in _files(tmp_path, "*.idx"):
        data, number = path.read_bytes(), int(path.name[:8])
        uuid = data[16:32]
        assert pack_header(number=number, uuid=uuid) == data[:HEADER_BYTES]
        seed = entry_seed(number=number, uuid=uuid)
        entries = [parse_entry(data, seed, at) for at in range(HEADER_BYTES, len(data), ENTRY_BYTES)]
        assert entries
        assert b"".join(entry.pack(seed) for entry in entries if isinstance(entry, IndexEntry)) == data[HEADER_BYTES:]
        if path.with_suffix(".dat").exists():
            check_entries(path.parent, number)


def test_an_index_is_made_again_with_the_same_bytes_but_for_times(tmp_path: Path, golden: dict[str, Golden]) -> None:
    """By the compiled code."""
    log = tmp_path / "producer"
    before = {number: _without_times(log, number) for number in (1, 2)}
    for number in before:
        (log / f"{number:08d}.idx").unlink()
    binlog.repair(log)
    for number, entries in before.items():
        whole = {(sequence, offset) for sequence, offset, *_ in entries}
        again = _without_times(log, number)
        # Made in one go, ranges are as long as can be; each begins where one began.
        assert {(sequence, offset) for sequence, offset, *_ in again} <= whole
        assert sum(entry[4] for entry in again) == sum(entry[4] for entry in entries)


def _without_times(log: Path, number: int) -> list[tuple[int, int, int, int, int]]:
    data = (log / f"{number:08d}.idx").read_bytes()
    seed = entry_seed(number=number, uuid=data[16:32])
    found = []
    for at in range(HEADER_BYTES, len(data), ENTRY_BYTES):
        entry = parse_entry(data, seed, at)
        assert entry is not None
        found.append((entry.sequence, entry.offset, entry.range_bytes, entry.range_crc, entry.record_count))
    return found


def test_producer_batches_and_ingests_are_written_as_the_same_bytes(tmp_path: Path, golden: dict[str, Golden]) -> None:
    for path in _files(tmp_path, "*.producer*"):
        directory = LogDirectory(path.parent)
        found = read_producer_batch(directory, path.name)
        directory.close()
        assert found is not None
        assert pack_text(json.dumps(asdict(found[0])).encode()) == path.read_bytes()
    [path] = _files(tmp_path, ".ingest")
    directory = LogDirectory(path.parent)
    record = read_ingest(directory)
    directory.close()
    assert record is not None
    assert record.batch is not None
    body = json.dumps({"id": record.identity, "batch": asdict(record.batch)}).encode()
    assert pack_text(body) == path.read_bytes()


def test_an_archive_has_the_same_bytes_around_its_frames(tmp_path: Path, golden: dict[str, Golden]) -> None:
    for path in _files(tmp_path, "*.zst"):
        data = path.read_bytes()
        with path.open("rb") as file:
            content = ArchiveReader(file.fileno(), str(path))
            end, start = content.end, content.start
        assert pack_start(start[10:266], start[266:]) == data[:START_BYTES]
        rest = pack_end(number=end.number, uuid=end.uuid, frames=end.table.frames())
        assert data[end.table.places[-1] :] == rest
