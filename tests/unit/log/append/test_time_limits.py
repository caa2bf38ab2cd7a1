"""Appends with a time limit: the call ends in time, and its error says whether the record may be in the log."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from binlog import Mode, Ref, Writer
from binlog.errors import BusyError, ClosedError, FullError, StateError, UnknownOutcomeError
from tests.support.children import Child
from tests.support.logs import job, jobs_by_writer, jpos_file, read_all
from tests.support.obstacles import foreign_lock
from tests.support.threads import at_once
from tests.support.waiting import until

# Generous, for a busy machine; the wait that it must not have taken lasts forever.
_LATE = 5.0
_TIMEOUT = 0.05
_SIZES = {"staged": 10, "too large to be staged": 100_000}


@contextmanager
def _in_time(timeout: float = _TIMEOUT) -> Iterator[None]:
    """Check that the block takes this time at least, and not much longer."""
    begun = time.monotonic()
    yield
    assert timeout <= time.monotonic() - begun < timeout + _LATE


@pytest.mark.parametrize("timeout", [1, 30.0, "1m", timedelta(seconds=5)])
@pytest.mark.parametrize("mode", list(Mode))
def test_an_append_with_a_time_limit_returns_what_one_without_returns(log: Path, mode: Mode, timeout: Any) -> None:
    expected = {Mode.STAGE: type(None)}.get(mode, Ref)
    with Writer(log, mode=mode) as writer:
        for record in (b"one", bytearray(b"two"), b"", bytes(100_000)):
            assert type(writer.append(record, timeout=timeout)) is expected
            assert type(writer.append(record)) is expected
        assert type(writer.append(b"last", mode=mode, timeout=timeout)) is expected
    assert read_all(log) == [b"one", b"one", b"two", b"two", b"", b"", bytes(100_000), bytes(100_000), b"last"]


def test_wrong_limits_and_records_are_refused(log: Path) -> None:
    with Writer(log, record_bytes_max=100) as writer:
        writer.append(b"x", mode=Mode.STAGE)
        for wrong in (-1, -1.0, float("nan"), "soon", timedelta(seconds=-1)):
            for mode in Mode:
                with pytest.raises(ValueError, match="timeout"):
                    writer.append(b"x", mode=mode, timeout=wrong)
        with pytest.raises(TypeError, match="timeout"):
            writer.append(b"x", timeout=b"1")  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            writer.append("text", timeout=1)  # type: ignore[call-overload]
        with pytest.raises(FullError, match="101 bytes"):
            writer.append(bytes(101), timeout=1)
    with pytest.raises(ClosedError):
        writer.append(b"x", timeout=1)
    assert read_all(log) == [b"x"]


def test_records_stay_in_the_order_of_their_thread(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(300):
            mode = (Mode.STAGE, Mode.FLUSH, Mode.SYNC)[number % 3]
            writer.append(
                job(0, number, 100_000 if number % 50 == 7 else 40), mode=mode, timeout=[None, 60.0][number % 2]
            )
    assert jobs_by_writer(read_all(log)) == {0: list(range(300))}


@pytest.mark.parametrize("size", _SIZES.values(), ids=_SIZES)
def test_a_lock_of_another_program_ends_the_call_and_the_record_is_withdrawn(log: Path, size: int) -> None:
    with Writer(log) as writer:
        with foreign_lock(log):
            for mode in (Mode.SYNC, Mode.FLUSH):
                with _in_time(), pytest.raises(BusyError):
                    writer.append(b"late".ljust(size), mode=mode, timeout=_TIMEOUT)
        assert writer.append(b"retried".ljust(size), timeout=60).number == 1
        writer.append(b"last")
    assert read_all(log) == [b"retried".ljust(size), b"last"]


def test_an_append_waits_until_the_lock_is_free(log: Path) -> None:
    for size in _SIZES.values():
        with Writer(log) as writer:
            with foreign_lock(log):
                thread = threading.Thread(target=writer.append, args=(b"x" * size,), kwargs={"timeout": 60})
                thread.start()
                until(lambda: bool(writer._leading and writer._leading._calls))
                assert thread.is_alive()
            thread.join()
    assert [len(record) for record in read_all(log)] == list(_SIZES.values())


def test_errors_say_whether_the_record_may_be_in_the_log(log: Path) -> None:
    done, unknown = set[int](), set[int]()
    with Writer(log) as writer:
        for number in range(300):
            try:
                writer.append(job(0, number), timeout=number % 20 * 10e-6)
                done.add(number)
            except UnknownOutcomeError:
                unknown.add(number)
            except BusyError:
                continue
    found = jobs_by_writer(read_all(log)).get(0, [])
    assert found == sorted(set(found))
    assert done <= set(found) <= done | unknown


def _appended(writer: Writer, size: int) -> int:
    """Append jobs from number 1 on until one is refused, and return its number."""
    for number in range(1, 10_000):
        try:
            writer.append(job(0, number, size), timeout=_TIMEOUT)
        except BusyError:
            return number
    raise AssertionError


@pytest.mark.slow
@pytest.mark.slow
def test_a_full_ring_ends_the_call_and_nothing_staged_is_lost(log: Path) -> None:
    with Writer(log, mode=Mode.STAGE) as writer:
        writer.append(job(0, 0))
        with foreign_lock(log):
            count = _appended(writer, 1000)
            for _ in range(3):
                with _in_time(), pytest.raises(BusyError):
                    writer.append(bytes(1000), timeout=_TIMEOUT)
        assert 200 < count < 300
        for number in range(count, 2000):
            writer.append(job(0, number, 1000), timeout=60.0)
    assert jobs_by_writer(read_all(log)) == {0: list(range(2000))}


@pytest.mark.slow
def test_a_call_of_another_thread_that_waits_does_not_prolong_the_call(log: Path) -> None:
    with Writer(log) as writer:
        with foreign_lock(log):
            thread = threading.Thread(target=writer.append, args=(b"waits",))
            thread.start()
            until(lambda: writer._session.fast_path.owner != 0)
            for size in _SIZES.values():
                with _in_time(), pytest.raises(BusyError):
                    writer.append(b"late".ljust(size), timeout=_TIMEOUT)
            with _in_time(), pytest.raises(BusyError):
                writer.append_many([b"late", b"late"], timeout=_TIMEOUT)
        thread.join()
        writer.append(b"last", timeout=60)
    assert read_all(log) == [b"waits", b"last"]


def test_each_call_has_its_own_limit(log: Path) -> None:
    with Writer(log) as writer:
        with foreign_lock(log):
            thread = threading.Thread(target=writer.append, args=(b"patient",), kwargs={"timeout": 60})
            thread.start()
            until(lambda: bool(writer._leading and writer._leading._calls))

            def give_up() -> None:
                with _in_time(), pytest.raises(BusyError):
                    writer.append(b"impatient", timeout=_TIMEOUT)

            at_once(*[give_up] * 4)
            assert thread.is_alive()
        thread.join()
    assert read_all(log) == [b"patient"]


def test_a_lock_timeout_holds_while_the_thread_that_leads_waits(log: Path) -> None:
    """The thread gives up the mutex when the limits of its callers have passed."""
    with Writer(log, lock_timeout=_TIMEOUT) as writer:
        with foreign_lock(log):
            with pytest.raises(BusyError):
                writer.append(b"late", timeout=_TIMEOUT)
            with _in_time(), pytest.raises(BusyError):
                writer.append(b"late")
        writer.append(b"last")
    assert read_all(log) == [b"last"]


@pytest.mark.slow
def test_threads_with_limits_share_commits(log: Path) -> None:
    with Writer(log) as writer:

        def append(number: int) -> Callable[[], None]:
            def run() -> None:
                for sequence in range(100):
                    writer.append(job(number, sequence), timeout=60 if number % 3 else None)

            return run

        at_once(*[append(number) for number in range(9)])
    assert jobs_by_writer(read_all(log)) == {number: list(range(100)) for number in range(9)}


@pytest.mark.slow
def test_threads_with_limits_append_large_records(log: Path) -> None:
    with Writer(log) as writer:

        def append(number: int) -> Callable[[], None]:
            def run() -> None:
                for sequence in range(30):
                    writer.append(job(number, sequence, 70_000), mode=Mode.FLUSH, timeout=60)

            return run

        at_once(*[append(number) for number in range(8)])
    assert jobs_by_writer(read_all(log)) == {number: list(range(30)) for number in range(8)}


def test_a_file_of_another_program_is_appended_to_in_time(log: Path) -> None:
    log.mkdir()
    jpos_file(log, [b"theirs"])
    with Writer(log) as writer:
        with foreign_lock(log), _in_time(), pytest.raises(BusyError):
            writer.append(b"late", timeout=_TIMEOUT)
        assert writer.append(b"ours", timeout=60).number == 1
        with pytest.raises(StateError, match="another program"):
            writer.append_batches([])
    assert read_all(log) == [b"theirs", b"ours"]


def test_a_signal_handler_runs_and_may_end_the_call(log: Path) -> None:
    def interrupt(*_: object) -> None:
        raise ZeroDivisionError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Writer(log) as writer:
            with foreign_lock(log):
                for size in _SIZES.values():
                    signal.setitimer(signal.ITIMER_REAL, 0.02)
                    with pytest.raises(ZeroDivisionError):
                        writer.append(b"late".ljust(size), timeout=60)
                signal.signal(signal.SIGALRM, lambda *_: None)
                signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
                with _in_time(), pytest.raises(BusyError):
                    writer.append(b"late", timeout=_TIMEOUT)
            signal.setitimer(signal.ITIMER_REAL, 0)
            writer.append(b"last", timeout=60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert read_all(log)[-1] == b"last"
    assert read_all(log).count(b"late") == 0


def test_a_call_within_a_call_of_the_same_writer_is_refused(log: Path) -> None:
    with Writer(log) as writer:

        def enter(*_: object) -> None:
            with pytest.raises(StateError, match="entered again"):
                writer.append(b"inner", timeout=60)

        writer._open_session().run(enter)
    assert read_all(log) == []


def test_a_file_at_its_limit_is_cut_over(log: Path) -> None:
    with Writer(log, cutover_bytes=1000) as writer:
        for number in range(60):
            writer.append(job(0, number, 100), timeout=60)
        until(lambda: len(list(log.glob("*.dat"))) > 2)
    assert jobs_by_writer(read_all(log)) == {0: list(range(60))}


def test_records_appended_together_have_one_limit(log: Path) -> None:
    with Writer(log) as writer:
        refs = writer.append_many([b"one", b"two", b"three"], timeout=60)
        assert list(refs) == [Ref(1, 256), Ref(1, 263), Ref(1, 270)]
        assert len(writer.append_many([], timeout=60)) == 0
        assert len(writer.append_many([bytes(1000)] * 200, mode=Mode.FLUSH, timeout="1m")) == 200
        with foreign_lock(log), _in_time(), pytest.raises(BusyError):
            writer.append_many([b"late", b"late"], timeout=_TIMEOUT)
    assert read_all(log) == [b"one", b"two", b"three", *[bytes(1000)] * 200]


def test_a_full_disk_or_limit_is_reported_and_not_busy(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"first", timeout=60)

    def work() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with Writer(log) as writer:
            size = (log / "00000001.dat").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            for mode in (Mode.SYNC, Mode.FLUSH):
                with pytest.raises(FullError):
                    _ = [writer.append(bytes(60_000), mode=mode, timeout=60) for _ in range(100)]
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            writer.append(b"last", timeout=60)

    Child(work).join()
    assert read_all(log)[-1] == b"last"


@pytest.mark.slow
@pytest.mark.slow
def test_a_forked_child_opens_the_log_in_time(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"parent", timeout=60)
        with foreign_lock(log):

            def work() -> None:
                for mode in Mode:
                    with _in_time(), pytest.raises(BusyError):
                        writer.append(b"late", mode=mode, timeout=_TIMEOUT)

            Child(work).join()

        def append() -> None:
            for mode in Mode:
                writer.append(mode.name.encode(), mode=mode, timeout=60)
            writer.close()

        Child(append).join()
        writer.append(b"last", timeout=60)
    assert read_all(log) == [b"parent", b"SYNC", b"FLUSH", b"STAGE", b"last"]


def test_closing_ends_the_calls_that_wait(log: Path) -> None:
    writer = Writer(log)
    errors: list[Exception] = []

    def append() -> None:
        try:
            writer.append(b"late", timeout=60)
        except ClosedError as error:
            errors.append(error)

    with foreign_lock(log):
        threads = [threading.Thread(target=append) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: bool(writer._leading and len(writer._leading._calls) == 3))
        closing = threading.Thread(target=writer.close)
        closing.start()
    for thread in (*threads, closing):
        thread.join()
    assert len(read_all(log)) + len(errors) == 3


def test_closing_ends_a_call_that_has_just_begun(log: Path) -> None:
    writer = Writer(log)
    writer.append(b"first", timeout=60)
    leading, session = writer._leading, writer._session
    assert leading is not None
    writer.close()
    # As in a thread that has found the writer open.
    with pytest.raises(ClosedError):
        leading.append(session, b"late", 1, Mode.SYNC, framed=False, timeout=_LATE)
    assert read_all(log) == [b"first"]


def test_a_dropped_writer_is_freed_and_its_thread_ends(log: Path) -> None:
    writer = Writer(log)
    writer.append(b"x", timeout=60)
    assert writer._leading is not None
    running = writer._leading._worker._running
    gone = weakref.ref(writer)
    del writer
    gc.collect()
    assert gone() is None
    assert running.acquire(timeout=60)
