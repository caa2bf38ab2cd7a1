"""timed_batch: the times of a batch's records are those of its entries."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import binlog
from binlog import Batch, Reader, Writer, timed_batch
from binlog.errors import GoneError
from binlog.format.index_file import ENTRY_BYTES, HEADER_BYTES


def _fill(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(4):
            writer.append_many([b"x" * 10_000] * (3 * number + 1))
            if number == 2:
                writer.cutover()
        writer.append(b"last")


def _check(log: Path) -> None:
    for records_max in (1, 3, 1000):
        with Reader(log) as reader:
            while batch := reader.read_batch(records_max=records_max):
                timed = timed_batch(log, batch)
                assert timed.batch is batch
                assert list(timed.ends) == sorted(set(timed.ends))
                assert timed.ends[-1] == len(batch)
                begin = 0
                for end, time_ns in zip(timed.ends, timed.times_ns, strict=True):
                    for entry in batch.entries()[begin:end]:
                        assert round(entry.time.timestamp() * 1e6) == time_ns // 1000
                    begin = end


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
        times_ns = timed_batch(log, reader.read_batch(bytes_max=1 << 20)).times_ns
    assert list(times_ns) == sorted(times_ns)
    assert bool(times_ns[-1]) == bool(entry_count)


def test_an_empty_batch_has_no_times(log: Path) -> None:
    _fill(log)
    assert list(timed_batch(log, Batch.from_records([])).ends) == []


def test_a_removed_file_is_gone(log: Path) -> None:
    _fill(log)
    with Reader(log) as reader:
        batch = reader.read_batch()
    copy = log.parent / "copy"
    shutil.copytree(log, copy)
    os.unlink(copy / "00000001.dat")
    with pytest.raises(GoneError, match="file 1 was removed"):
        timed_batch(copy, batch)
