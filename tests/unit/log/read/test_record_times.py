"""RecordTimes: the times of records are those of their entries."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import binlog
from binlog import Batch, Reader, RecordTimes, TimedRange, Writer
from binlog.errors import GoneError
from binlog.format.index_file import ENTRY_BYTES, HEADER_BYTES


def _fill(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(4):
            writer.append_many([b"x" * 10_000] * (3 * number + 1))
            if number == 2:
                writer.cutover()
        writer.append(b"last")


def _ranges(times: RecordTimes, batch: Batch) -> list[TimedRange]:
    return times.ranges(batch.number, batch.offset, batch.next_ref.offset)


def _check(log: Path) -> None:
    times = RecordTimes(log)
    for records_max in (1, 3, 1000):
        with Reader(log) as reader:
            while batch := reader.read_batch(records_max=records_max):
                ranges = _ranges(times, batch)
                assert ranges == _ranges(RecordTimes(log), batch)
                ends = [each.end for each in ranges]
                assert ends == sorted(set(ends))
                assert ends[-1] == batch.next_ref.offset
                begin = batch.offset
                for end, time_ns in ranges:
                    for entry in batch.entries():
                        if begin <= entry.ref.offset < end:
                            assert round(entry.time.timestamp() * 1e6) == time_ns // 1000
                    begin = end


@pytest.mark.slow
def test_the_times_are_those_of_the_entries(log: Path) -> None:
    _fill(log)
    _check(log)
    binlog.archive(log)
    _check(log)


@pytest.mark.parametrize("entry_count", [0, 1, 3])
def test_records_that_the_index_does_not_cover_are_not_earlier_than_the_others(log: Path, entry_count: int) -> None:
    _fill(log)
    os.truncate(log / "00000001.idx", HEADER_BYTES + entry_count * ENTRY_BYTES)
    os.utime(log / "00000001.dat", ns=(0, 0))  # as after a step of the clock
    _check(log)
    with Reader(log) as reader:
        times_ns = [each.time_ns for each in _ranges(RecordTimes(log), reader.read_batch(bytes_max=1 << 20))]
    assert times_ns == sorted(times_ns)
    assert bool(times_ns[-1]) == bool(entry_count)


def test_no_records_have_no_times(log: Path) -> None:
    _fill(log)
    assert RecordTimes(log).ranges(1, 256, 256) == []


@pytest.mark.slow
def test_records_that_are_appended_later_have_later_times(log: Path) -> None:
    with Writer(log) as writer, Reader(log) as reader:
        times = RecordTimes(log)
        found = []
        for number in range(200):
            writer.append(b"x" * 5000)
            found += [each.time_ns for each in _ranges(times, reader.read_batch())]
            if number == 100:
                writer.cutover()
    assert found == sorted(found)
    assert len(set(found)) > 100


def test_a_removed_file_is_gone(log: Path) -> None:
    _fill(log)
    with Reader(log) as reader:
        batch = reader.read_batch()
    copy = log.parent / "copy"
    shutil.copytree(log, copy)
    os.unlink(copy / "00000001.dat")
    with pytest.raises(GoneError, match="file 1 was removed"):
        _ranges(RecordTimes(copy), batch)
