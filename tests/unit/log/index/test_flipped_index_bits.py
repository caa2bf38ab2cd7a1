"""A flipped bit anywhere in an index: no record is affected."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Mode, RangeReader, Reader, Sequence, Since, Writer
from binlog.log.read.range_reader import TimedBatch
from tests.support.indexes import check_entries, index_entries

RECORDS = [b"%d" % number * (7 * number + 1) for number in range(12)]
HEADER_BYTES, ENTRY_BYTES = 32, 40


def _make(log: Path, *, files: int) -> list[bytes]:
    with Writer(log, prepare_bytes=4096) as writer:
        for file in range(files):
            for index, record in enumerate(RECORDS):
                writer.append(record, mode=Mode.FLUSH if index % 3 == 0 else Mode.SYNC)
            if file < files - 1:
                writer.cutover()
    return RECORDS * files


def _log_bytes(log: Path) -> dict[str, bytes]:
    names = [name for name in os.listdir(log) if name.endswith((".dat", ".damaged", ".zst"))]
    return {name: (log / name).read_bytes() for name in sorted(names)}


def _ranged(log: Path, number: int) -> list[bytes]:
    found: list[bytes] = []
    with RangeReader(log, number) as reader:
        for each in reader:
            assert isinstance(each, TimedBatch)
            found.extend(each.batch)
    return found


def _read(log: Path, records: list[bytes]) -> None:
    assert [entry.data for entry in Reader(log)] == records
    assert [entry.data for entry in Reader(log, Since(0))] == records
    assert [entry.data for entry in Reader(log, Sequence(5))] == records[5:]


def _flips(index: Path, bits: range) -> Callable[[int], None]:
    sound = index.read_bytes()
    assert bits.stop <= 8 * len(sound)

    def flip(bit: int) -> None:
        data = bytearray(sound)
        data[bit // 8] ^= 1 << bit % 8
        index.write_bytes(data)

    return flip


@pytest.mark.slow
@pytest.mark.parametrize(("files", "number", "step"), [(1, 1, 17), (3, 1, 37), (3, 3, 53)])
def test_a_repair_trusts_the_records(tmp_path: Path, files: int, number: int, step: int) -> None:
    records = _make(tmp_path, files=files)
    index = tmp_path / f"{number:08d}.idx"
    bits = range(0, 8 * (HEADER_BYTES + ENTRY_BYTES * len(index_entries(tmp_path, number))), step)
    flip = _flips(index, bits)
    before = _log_bytes(tmp_path)
    for bit in bits:
        flip(bit)
        _read(tmp_path, records)
        assert _ranged(tmp_path, number) == RECORDS
        told = {problem.rule for problem in binlog.check(tmp_path)}
        # The last entry may be torn by a power cut, and an index of an earlier version counts as none.
        assert told <= {"index"}
        done = {each.action for each in binlog.repair(tmp_path)}
        assert done <= {"index"}
        assert _log_bytes(tmp_path) == before
        assert check_entries(tmp_path, number) == 0
        assert binlog.check(tmp_path) == []
        _read(tmp_path, records)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_writers_continue_beside_a_flipped_index_bit(tmp_path: Path, number: int) -> None:
    records = _make(tmp_path, files=2)
    index = tmp_path / f"{number:08d}.idx"
    for bit in range(0, 8 * index.stat().st_size, 29):
        binlog.repair(tmp_path)
        bits = range(8 * index.stat().st_size)
        _flips(index, bits)(bit % bits.stop)
        for _ in range(2):
            with Writer(tmp_path, prepare_bytes=4096) as writer:
                records.append(b"more")
                writer.append(b"more")
        _read(tmp_path, records)
    binlog.repair(tmp_path)
    assert binlog.check(tmp_path) == []
    assert not list(tmp_path.glob("*.damaged"))


@pytest.mark.parametrize("entry", [0, 4])
def test_records_with_wrong_lengths_are_damaged_even_if_their_entry_is_too(tmp_path: Path, entry: int) -> None:
    """The entries around the damaged one have the record count."""
    _make(tmp_path, files=1)
    entries = index_entries(tmp_path)
    _flips(tmp_path / "00000001.idx", range(1))(8 * (HEADER_BYTES + ENTRY_BYTES * entry + 20))
    with open(tmp_path / "00000001.dat", "r+b") as file:
        os.pwrite(file.fileno(), struct.pack(">I", 1 << 20), entries[entry].offset)
    actions = [each.action for each in binlog.repair(tmp_path)]
    assert "quarantined" in actions
    found = [entry.data for entry in Reader(tmp_path)]
    first = entries[entry].sequence
    behind = first + entries[entry].record_count
    assert found[:first] + found[behind:] == RECORDS[:first] + RECORDS[behind:]
    assert [problem.rule for problem in binlog.check(tmp_path)] == ["quarantined"]


def test_an_index_of_version_1_counts_as_none_and_is_rebuilt(tmp_path: Path) -> None:
    records = _make(tmp_path, files=2)
    for number in (1, 2):
        index = tmp_path / f"{number:08d}.idx"
        header = bytearray(index.read_bytes()[:HEADER_BYTES])
        header[8:10] = struct.pack(">H", 1)
        earlier = [struct.pack(">QQQII", *entry[:5]) for entry in index_entries(tmp_path, number)]
        index.write_bytes(bytes(header) + b"".join(earlier))
    _read(tmp_path, records)
    assert binlog.check(tmp_path) == []
    with Writer(tmp_path) as writer:
        writer.append(b"more")
    assert check_entries(tmp_path, 2) == 0  # the writer rebuilt it
    assert {each.action for each in binlog.repair(tmp_path)} == {"index"}
    assert check_entries(tmp_path, 1) == 0
