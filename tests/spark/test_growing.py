"""A log that grows while it is read: each query shows the moment when it was planned."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from binlog import Writer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SPAWN = multiprocessing.get_context("spawn")


def append_and_cut_over(log: Path, stop: Event) -> None:
    """Append numbers and cut over, at growing intervals, until stopped."""
    number, next_cutover, parent = 0, 200, os.getppid()
    with Writer(log) as writer:
        # Also stop when the parent dies.
        while not stop.is_set() and os.getppid() == parent:
            writer.append_many([b"%d" % value for value in range(number, number + 5)])
            number += 5
            if number == next_cutover:
                writer.cutover()
                next_cutover *= 2


@pytest.fixture
def growing_log(log: Path) -> Iterator[Path]:
    stop = SPAWN.Event()
    process = SPAWN.Process(target=append_and_cut_over, args=(log, stop))
    Writer(log).close()
    process.start()
    yield log
    stop.set()
    process.join()
    assert process.exitcode == 0


def load(spark: Any, log: Path) -> Any:
    return spark.read.format("binlog").load(str(log))


def test_a_read_has_no_holes(spark: Any, growing_log: Path) -> None:
    counts: list[int] = []
    while len(counts) < 3 or counts[-1] == counts[0]:
        frame = load(spark, growing_log)
        summary = frame.selectExpr("count(*)", "max(sequence)", "min(cast(data AS string) = cast(sequence AS string))")
        count, last, equal = summary.first()
        assert (last, equal) == ((count - 1, True) if count else (None, None))
        assert count % 5 == 0  # records of one append are read together
        counts.append(count)
    assert counts == sorted(counts)


def test_a_frame_shows_the_moment_of_its_first_query(spark: Any, log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
        frame = load(spark, log)
        writer.append(b"2")
        assert frame.count() == 2  # planned now, not by load()
        writer.append(b"3")
        writer.cutover()
        writer.append(b"4")
        assert load(spark, log).count() == 4
        assert frame.count() in (2, 4)  # PySpark 4.3 plans a frame once, 4.0 each of its queries
