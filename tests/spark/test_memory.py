"""The memory of Spark's Python workers, and very large records."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlog.format.log_header import FIRST_OFFSET, new_log_header
from binlog.storage.boot import boot_id

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]

MIB = 1 << 20
SAMPLE_SECONDS = 0.02
MOST_RECORDS = 8  # a worker may take the memory of this many of its records


def write_holes(log: Path, *, count: int, size: int) -> None:
    """Write a log file whose records are holes, so that the disk holds only their lengths."""
    log.mkdir()
    tail = FIRST_OFFSET + count * (4 + size)
    header = new_log_header(number=1, uuid=os.urandom(16), first_sequence=0, created_ns=1, boot_id=boot_id())
    header = header._replace(tail=tail, published_tail=tail, confirmed_end=tail, record_count=count)
    with (log / "00000001.dat").open("wb") as file:
        file.write(header.pack())
        for index in range(count):
            file.seek(FIRST_OFFSET + index * (4 + size))
            file.write(size.to_bytes(4, "big"))
        file.truncate(tail)


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _workers() -> list[int]:
    """Return Spark's Python workers: the descendants of this process that run pyspark.daemon."""
    parents = {}
    daemons = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (path / "cmdline").read_bytes():
                daemons.add(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = []
    for pid in daemons:
        above = pid
        while above > 1 and above != os.getpid():
            above = parents.get(above, 0)
        if above == os.getpid():
            found.append(pid)
    return found


@contextmanager
def sampled_memory() -> Iterator[list[int]]:
    """Sample the memory of the largest worker while a job runs."""
    samples: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            samples.append(max(map(_resident_bytes, _workers()), default=0))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


@pytest.mark.turn(3)
def test_a_worker_needs_no_more_memory_for_more_records(spark: Any, log: Path, figure: Any) -> None:
    size, count = 64 * MIB, int(os.environ.get("BINLOG_TEST_RECORDS", "24"))
    write_holes(log, count=count, size=size - 4)
    frame = spark.read.format("binlog").schema("data binary").load(str(log))
    with sampled_memory() as samples:
        begun = time.monotonic()
        assert tuple(frame.selectExpr("count(*)", "sum(length(data))").first()) == (count, count * (size - 4))
        seconds = time.monotonic() - begun
    most, last = max(samples), max(samples[-len(samples) // 3 :])
    figure(
        f"Spark's Python workers over {count * size / 1024**3:.1f} GiB in {seconds:.0f} s: "
        f"at most {most / MIB:.0f} MiB, in the last third of it {last / MIB:.0f}"
    )
    assert most < MOST_RECORDS * size


def test_a_record_of_256_mib_is_refused_and_the_session_lives(spark: Any, log: Path) -> None:
    write_holes(log, count=1, size=256 * MIB)
    frame = spark.read.format("binlog").schema("data binary").load(str(log))
    with pytest.raises(Exception, match="1:256 is a record of 268435456 bytes; the limit is 67108864"):
        frame.selectExpr("sum(length(data))").first()
    assert spark.range(3).count() == 3
