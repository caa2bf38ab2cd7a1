"""The modes: how far a record is when append returns, and its fate afterwards."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import binlog
from binlog import Background, Mode, Reader, Ref, Writer, stat
from binlog.errors import ClosedError, FullError
from binlog.format.log_header import LogHeader
from binlog.log.directory import LogDirectory
from stress.crash.preloaded.injector import Kind
from tests.support.children import Child
from tests.support.logs import job, jobs_by_writer, read_all
from tests.support.preloaded import run_preloaded
from tests.support.waiting import until

# A background thread that never acts during a test.
_NEVER = Background(flush_seconds=600, sync_seconds=600)


def _header(log: Path, number: int = 1) -> LogHeader:
    directory = LogDirectory(log)
    try:
        return directory.read_header(number)
    finally:
        directory.close()


def test_a_synced_record_is_confirmed_by_its_own_commit(log: Path) -> None:
    with Writer(log) as writer:
        for count in (1, 2, 3):
            assert writer.append(b"x" * 10) == Ref(1, 256 + 14 * (count - 1))
            header = _header(log)
            assert (header.confirmed_counter, header.confirmed_end) == (count, header.tail)
            slot = header.slot(count)
            assert slot is not None
            assert (slot.start, slot.end, slot.record_count) == (header.tail - 14, header.tail, count)


def test_a_flushed_record_is_visible_and_confirmed_by_the_next_sync(log: Path) -> None:
    with Writer(log, mode=Mode.FLUSH, background=_NEVER) as writer:
        assert writer.append(b"one") == Ref(1, 256)
        assert writer.append_many([b"two", b"three"]) == [Ref(1, 263), Ref(1, 270)]
        assert read_all(log) == [b"one", b"two", b"three"]
        header = _header(log)
        assert (header.confirmed_end, header.confirmed_counter, header.tail) == (256, 0, 279)
        writer.sync()
        header = _header(log)
        assert (header.confirmed_end, header.confirmed_counter) == (279, 1)
        writer.append(b"four", mode=Mode.SYNC)
        assert _header(log).confirmed_end == 287


@pytest.mark.slow
@pytest.mark.parametrize("mode", [Mode.FLUSH, Mode.STAGE])
def test_a_single_record_that_no_caller_waits_for_is_synced_soon(log: Path, mode: Mode) -> None:
    """A single byte waited for ten seconds, because fewer than four pages were not worth a sync."""
    with Writer(log, mode=mode) as writer:
        for _ in range(3):
            before = stat(log).files[-1].tail
            writer.append(b"x")
            since = time.monotonic()
            until(lambda before=before: (stat(log).files[-1].durable_end or 0) > before)  # type: ignore[misc]
            assert time.monotonic() - since < 5  # half a second, and some time for a busy machine


def test_a_synced_record_makes_all_before_it_durable(log: Path) -> None:
    with Writer(log, background=_NEVER) as writer:
        writer.append(b"flushed", mode=Mode.FLUSH)
        writer.append(b"staged", mode=Mode.STAGE)
        writer.append(b"synced")
        header = _header(log)
        assert header.confirmed_end == header.tail
    assert read_all(log) == [b"flushed", b"staged", b"synced"]


def test_a_staged_record_has_no_ref_and_is_not_seen_until_it_is_flushed(log: Path) -> None:
    with Writer(log, mode=Mode.STAGE, background=_NEVER) as writer:
        assert writer.append(b"one") is None
        assert writer.append(b"two") is None  # the first may have gone to the file, before the ring was ready
        assert b"two" not in read_all(log)
        writer.sync()
        assert read_all(log) == [b"one", b"two"]


def test_a_staged_record_is_flushed_and_synced_by_the_background_thread(log: Path) -> None:
    quick = Background(flush_seconds=0.01, sync_seconds=0.01)
    with Writer(log, mode=Mode.STAGE, background=quick) as writer, Reader(log) as reader:
        for count in range(20):
            writer.append(b"%d" % count)
        found: list[bytes] = []
        while len(found) < 20:
            assert reader.wait(60)
            found += [entry.data for entry in reader]
        assert found == [b"%d" % count for count in range(20)]
        while _header(log).confirmed_end < _header(log).tail:
            reader.wait(0.01)


def test_the_order_of_one_thread_is_kept_through_all_modes(log: Path) -> None:
    modes = [Mode.STAGE, Mode.FLUSH, Mode.STAGE, Mode.STAGE, Mode.SYNC]
    with Writer(log, background=_NEVER) as writer:
        for count in range(500):
            size = 100_000 if count % 97 == 0 else 50  # some are too large for a ring
            writer.append(job(0, count, size), mode=modes[count % len(modes)])
    assert jobs_by_writer(read_all(log)) == {0: list(range(500))}


@pytest.mark.slow
def test_more_is_staged_than_the_ring_holds(log: Path) -> None:
    with Writer(log, mode=Mode.STAGE, background=_NEVER) as writer:
        for count in range(5000):
            writer.append(job(0, count, 400))
    assert jobs_by_writer(read_all(log)) == {0: list(range(5000))}


@pytest.mark.slow
def test_threads_that_share_a_writer_keep_their_order_in_every_mode(log: Path) -> None:
    with Writer(log, background=Background(flush_seconds=0.005, sync_seconds=0.005)) as writer:

        def work(number: int) -> None:
            for count in range(400):
                writer.append(job(number, count), mode=list(Mode)[(number + count) % len(Mode)])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert jobs_by_writer(read_all(log)) == {number: list(range(400)) for number in range(6)}


def test_another_process_flushes_the_records_that_a_killed_one_had_staged(log: Path) -> None:
    staged_read, staged_write = os.pipe()

    def stage() -> None:
        writer = Writer(log, mode=Mode.STAGE, background=_NEVER)
        for count in range(100):
            writer.append(job(0, count))
        os.write(staged_write, b"!")
        signal.pause()

    child = Child(stage)
    assert os.read(staged_read, 1) == b"!"
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(AssertionError, match="-9"):
        child.join()
    assert len(read_all(log)) <= 1
    Writer(log).close()
    assert jobs_by_writer(read_all(log)) == {0: list(range(100))}


def test_the_next_commit_includes_the_records_that_a_living_writer_has_staged(log: Path) -> None:
    with Writer(log, background=_NEVER) as lazy, Writer(log) as other:
        lazy.append(b"first", mode=Mode.FLUSH)
        lazy.append(b"staged", mode=Mode.STAGE)
        assert read_all(log) == [b"first"]
        other.append(b"synced")
        assert sorted(read_all(log)) == [b"first", b"staged", b"synced"]


_ENDS = """
import sys
from binlog import Background, Mode, Writer
writer = Writer(sys.argv[1], mode=Mode.STAGE, background=Background(flush_seconds=600, sync_seconds=600))
for count in range(50):
    writer.append(b"%d" % count)
"""


@pytest.mark.slow
def test_the_end_of_the_interpreter_leaves_nothing_staged_and_nothing_unsynced(log: Path) -> None:
    subprocess.run([sys.executable, "-c", _ENDS, log], check=True, timeout=60)
    assert read_all(log) == [b"%d" % count for count in range(50)]
    header = _header(log)
    assert header.confirmed_end == header.tail


def test_a_closed_writer_stages_nothing(log: Path) -> None:
    writer = Writer(log, mode=Mode.STAGE)
    writer.append(b"one")
    writer.append(b"two")
    writer.close()
    with pytest.raises(ClosedError):
        writer.append(b"three")
    assert read_all(log) == [b"one", b"two"]


def test_a_staged_record_over_the_limit_is_refused(log: Path) -> None:
    with Writer(log, mode=Mode.STAGE, record_bytes_max=10) as writer:
        writer.append(bytes(10))
        writer.append(bytes(10))
        with pytest.raises(FullError):
            writer.append(bytes(11))


def test_a_forked_child_stages_in_its_own_ring(log: Path) -> None:
    with Writer(log, mode=Mode.STAGE, background=_NEVER) as writer:
        for count in range(10):
            writer.append(job(0, count))

        def stage() -> None:
            for count in range(10):
                writer.append(job(1, count))
            writer.close()

        Child(stage).join()
        for count in range(10, 20):
            writer.append(job(0, count))
    assert jobs_by_writer(read_all(log)) == {0: list(range(20)), 1: list(range(10))}


def test_a_cutover_confirms_flushed_records(log: Path) -> None:
    with Writer(log, mode=Mode.FLUSH, background=_NEVER) as writer:
        writer.append(b"one")
        writer.cutover()
        header = _header(log)
        assert (header.closed, header.confirmed_end) == (True, header.tail)
        writer.append(b"two")
    assert read_all(log) == [b"one", b"two"]


@pytest.mark.parametrize("wrong", [{"flush_seconds": 0}, {"sync_seconds": -1}, {"sync_seconds": float("nan")}])
def test_invalid_intervals_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Background(**wrong)  # type: ignore[arg-type]


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not 9"):
        Writer(tmp_path / "log", mode=9)  # type: ignore[call-overload]
    assert not (tmp_path / "log").exists()


def test_strict_syncs_once_more_before_it_returns(log: Path) -> None:
    with Writer(log, strict=True) as writer:
        writer.append(b"x")
        assert _header(log).flags & 4
    assert binlog.check(log) == []


def _append_much(log: Path) -> None:
    with Writer(log, mode=Mode.FLUSH, background=Background(sync_seconds=0.4)) as writer:
        for _ in range(60):
            writer.append_many([bytes(1 << 20)])
            time.sleep(0.02)


@pytest.mark.slow
def test_many_bytes_that_wait_for_a_sync_are_written_out_early(log: Path) -> None:
    calls = run_preloaded(_append_much, log, kinds=(Kind.OTHER, Kind.DATA_SYNC), names_end=".dat").calls
    assert calls.count(Kind.OTHER) >= 3
    sync = calls.index(Kind.DATA_SYNC, calls.index(Kind.OTHER))
    assert calls[sync - 1] is Kind.OTHER


@pytest.mark.slow
def test_a_garbage_tail_does_not_end_the_background_thread(log: Path) -> None:
    quick = Background(flush_seconds=0.005, sync_seconds=0.01)
    with Writer(log, mode=Mode.FLUSH, background=quick) as writer, Reader(log) as reader:
        writer.append(b"first")
        with (log / "00000001.dat").open("r+b", buffering=0) as file:
            live = os.pread(file.fileno(), 64, 64)
            os.pwrite(file.fileno(), b"\xff" * 64, 64)
            time.sleep(0.2)
            os.pwrite(file.fileno(), live, 64)
        writer.append(b"staged", mode=Mode.STAGE)
        assert [entry.data for entry in itertools.islice(reader.tail(timeout=30), 2)] == [b"first", b"staged"]
