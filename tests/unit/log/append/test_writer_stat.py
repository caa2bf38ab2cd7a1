"""The counters of a writer: every append counts once, in its mode, whichever way it takes."""

from __future__ import annotations

import fcntl
import struct
import threading
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path

import pytest

import binlog
from binlog import Batch, Mode, Writer, WriterStat
from binlog.errors import BusyError
from tests.support.children import Child
from tests.support.logs import read_all
from tests.support.waiting import until


def _batch(log: Path, count: int) -> Batch:
    """Return a batch of records of ten bytes each."""
    with Writer(log) as writer:
        writer.append_many([bytes(10)] * count)
    with binlog.Reader(log) as reader:
        return reader.read_batch()


@pytest.mark.parametrize("timeout", [None, 60])
def test_every_append_counts_in_its_mode(log: Path, timeout: float | None) -> None:
    with Writer(log) as writer:
        assert writer.stat() == WriterStat()
        for size in (0, 10, 100_000):
            writer.append(bytes(size), timeout=timeout)
            writer.append(bytes(size), mode=Mode.FLUSH, timeout=timeout)
            writer.append(bytes(size), mode=Mode.STAGE, timeout=timeout)
        writer.append_many([b"12", b"345"], timeout=timeout)
        writer.append_many([b"12", b"345"], mode=Mode.STAGE, timeout=timeout)
        found = writer.stat()
    assert (found.records_sync, found.records_flush, found.records_stage) == (5, 5, 3)
    assert (found.bytes_sync, found.bytes_flush, found.bytes_stage) == (100_015, 100_015, 100_010)
    assert found.busy == found.unknown == 0
    assert len(read_all(log)) == 13


def test_batches_count(log: Path, tmp_path: Path) -> None:
    batch = _batch(tmp_path / "other", 7)
    with Writer(log) as writer:
        writer.append_batch(batch)
        writer.append_batches([batch, batch])
        writer.append_idempotent([batch], producer="p", sequence=0)
        writer.append_idempotent([batch], producer="p", sequence=0)  # in the log already
        assert (writer.stat().records_sync, writer.stat().bytes_sync) == (28, 280)
        assert writer.stat().led_records == 28


def test_groups_and_syncs_are_those_that_the_writer_leads(log: Path) -> None:
    with Writer(log) as writer, Writer(log) as other:
        for number in range(10):
            writer.append(b"x", mode=Mode.FLUSH)
            assert writer.stat().led_groups == number + 1
        assert writer.stat().syncs == 0
        writer.append(b"x")
        assert writer.stat().syncs == 1
        writer.sync()
        assert writer.stat().syncs == 1, "everything was synced"
        writer.cutover()
        writer.append(b"in the next file")
        found = writer.stat()
        assert (found.led_groups, found.led_records, found.syncs) == (12, 12, 2)
        other.append(b"y")
        assert writer.stat() == found
        assert (other.stat().led_groups, other.stat().records_sync) == (1, 1)
    assert (found.waits, found.wait_ns) == (0, 0)


def test_a_wait_for_a_lock_counts_with_its_time(log: Path) -> None:
    with Writer(log) as writer, (log / "00000001.dat").open("r+b") as file:
        for _ in range(2):
            fcntl.fcntl(file, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
            thread = threading.Thread(target=writer.append, args=(b"x",))
            thread.start()
            until(lambda: writer._session.fast_path.owner != 0)
            assert not thread.join(0.05)
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_UNLCK, 0, 0, 0, 0))
            thread.join()
        found = writer.stat()
    assert found.waits == 2
    assert 50e6 <= found.wait_ns_max < found.wait_ns < 2 * found.wait_ns_max + 1


def test_an_append_that_ends_with_busy_counts(log: Path) -> None:
    with Writer(log, lock_timeout=0.01) as writer, (log / "00000001.dat").open("r+b") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
        for count, timeout in enumerate((None, 0.01, 0.01), 1):
            with pytest.raises(BusyError):
                writer.append(b"x", timeout=timeout)
            assert writer.stat().busy == count
        assert writer.stat().records_sync == 0
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_UNLCK, 0, 0, 0, 0))


def test_a_forked_child_counts_from_zero(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"parent")

        def work() -> None:
            assert writer.stat() == WriterStat()
            writer.append(b"child", mode=Mode.FLUSH)
            assert (writer.stat().records_sync, writer.stat().records_flush) == (0, 1)

        Child(work).join()
        assert (writer.stat().records_sync, writer.stat().records_flush) == (1, 0)


def test_the_counters_are_a_value_and_outlive_close(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"x")
        before = writer.stat()
    assert asdict(writer.stat())["records_sync"] == 1
    assert before == writer.stat()
    with pytest.raises(FrozenInstanceError):
        before.waits = 5  # type: ignore[misc]


@pytest.mark.slow
def test_threads_count_every_append(log: Path) -> None:
    count = 2000
    with Writer(log) as writer:

        def append() -> None:
            for number in range(count):
                writer.append(b"x", mode=Mode.STAGE if number % 2 else Mode.FLUSH)

        threads = [threading.Thread(target=append) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        writer.sync()
        found = writer.stat()
    assert (found.records_flush, found.records_stage) == (2 * count, 2 * count)
    assert found.led_records == 4 * count
