"""A log that cannot take a record: the call ends in time, the policy applies, and the number of losses is reported."""

from __future__ import annotations

import errno
import io
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog.errors import BinlogError, BusyError, FullError
from binlog.logging import Counters, Handler
from stress.crash.preloaded.injector import Action, Injection, Kind, arm, disarm
from tests.support.children import Child
from tests.support.events import bodies, event_of, events, logger_of
from tests.support.logs import read_all
from tests.support.obstacles import foreign_lock, stopped_leader
from tests.support.preloaded import run_preloaded
from tests.support.waiting import until

_WAIT = 0.1
# Generous, for a busy machine; the obstacles last forever.
_LATE = 5.0


def _losses(log: Path) -> list[dict[str, Any]]:
    return [event for event in events(log) if event.get("event") == "binlog.losses"]


@contextmanager
def _in_time() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < _WAIT + _LATE


def _set_wait(logger: logging.Logger, seconds: float) -> None:
    """Change the time limit: patient calls must succeed on a busy machine, impatient ones meet an obstacle."""
    (handler,) = logger.handlers
    assert isinstance(handler, Handler)
    handler._sink._delivery.wait = seconds


@pytest.mark.parametrize("obstacle", [foreign_lock, stopped_leader])
@pytest.mark.parametrize("mode", ["flush", "sync"])
@pytest.mark.slow
def test_a_record_that_cannot_be_appended_in_time_is_counted_and_reported(
    log: Path, obstacle: Callable[[Path], AbstractContextManager[None]], mode: str
) -> None:
    handler = Handler(log, wait=60, modes={0: mode})
    with logger_of(handler) as logger:
        logger.info("before")
        _set_wait(logger, _WAIT)
        with obstacle(log):
            for number in range(3):
                with _in_time():
                    logger.info("lost %d", number)
            counters = handler.counters
            assert (counters.written, counters.dropped + counters.uncertain) == (1, 3)
        _set_wait(logger, 60.0)
        logger.info("after")
        logger.info("last")
    found = bodies(log)
    assert found[0] == "before"
    assert found[-1] == "last"
    assert "after" in found
    (report,) = _losses(log)
    assert report["attributes"]["dropped"] == counters.dropped
    assert report["attributes"]["uncertain"] == counters.uncertain
    assert report["level"] == "WARNING"
    assert "since 20" in report["body"]
    lost = [body for body in found if body.startswith("lost")]
    assert len(lost) <= counters.uncertain


def test_stage_waits_for_nothing_until_the_ring_is_full(log: Path) -> None:
    handler = Handler(log, wait=60)
    with logger_of(handler) as logger:
        logger.info("first")
        _set_wait(logger, _WAIT)
        with foreign_lock(log):
            count = 0
            while not handler.counters.dropped:
                with _in_time():
                    logger.info("%d %s", count, "x" * 1000)
                count += 1
        assert count > 100
    assert [int(body.split()[0]) for body in bodies(log)[1:] if "dropped" not in body] == list(range(count - 1))
    assert [event["attributes"]["dropped"] for event in _losses(log)] == [1]


def test_fallback_writes_the_record_to_the_stream(log: Path) -> None:
    stream = io.StringIO()
    handler = Handler(log, wait=60, modes={0: "flush"}, full="fallback", fallback=stream)
    with logger_of(handler) as logger:
        logger.info("before")
        _set_wait(logger, _WAIT)
        with foreign_lock(log):
            logger.info("refused")
    assert '"body":"refused"' in stream.getvalue()
    assert "refused" not in bodies(log)


def test_fallback_without_a_stream_is_standard_error(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with logger_of(Handler(log, wait=60, modes={0: "flush"}, full="fallback")) as logger:
        logger.info("before")
        _set_wait(logger, _WAIT)
        with foreign_lock(log):
            logger.info("refused")
    assert '"body":"refused"' in capfd.readouterr().err


def test_raise_raises_to_the_code_that_logs(log: Path) -> None:
    handler = Handler(log, wait=60, modes={0: "sync"}, full="raise")
    with logger_of(handler) as logger:
        logger.info("before")
        _set_wait(logger, _WAIT)
        with foreign_lock(log), _in_time(), pytest.raises(BusyError):
            logger.info("refused")
        _set_wait(logger, 60.0)
        logger.info("after")
        assert handler.counters == Counters(written=2, dropped=0, uncertain=0, deferred=0, cut=0)
    assert bodies(log) == ["before", "after"]


@pytest.mark.slow
def test_block_waits_for_as_long_as_it_takes(log: Path) -> None:
    handler = Handler(log, wait=_WAIT, modes={0: "flush"}, full="block")
    with logger_of(handler) as logger:
        logger.info("before")
        with foreign_lock(log):
            thread = threading.Thread(target=logger.info, args=("blocked",))
            thread.start()
            thread.join(timeout=2 * _WAIT)
            assert thread.is_alive()
        thread.join()
    assert bodies(log) == ["before", "blocked"]


def _limited(log: Path, full: str, told: Callable[[Handler, logging.Logger], None]) -> None:
    """Log until the files of the process may not grow any more, and call `told`."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    handler = Handler(log, modes={0: "flush"}, full=full)
    with logger_of(handler) as logger:
        logger.info("first")
        size = sum(path.stat().st_size for path in log.glob("*.dat"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        told(handler, logger)


def _unlimited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.slow
def test_a_full_disk_drops_records_and_says_how_many(log: Path) -> None:
    def fill(handler: Handler, logger: logging.Logger) -> None:
        count = 0
        while handler.counters.dropped < 10:
            logger.info("%d %s", count, "x" * 30_000)
            count += 1
        _unlimited()
        logger.info("after")

    Child(_limited, log, "drop", fill).join()
    (report,) = _losses(log)
    assert report["body"].startswith("10 records dropped since 20")
    assert report["attributes"]["reason"].startswith("FullError: ")
    assert "after" in bodies(log)


@pytest.mark.slow
def test_a_full_disk_raises(log: Path) -> None:
    def fill(handler: Handler, logger: logging.Logger) -> None:
        with pytest.raises(FullError):
            _ = [logger.info("x" * 30_000) for _ in range(1000)]  # type: ignore[func-returns-value]
        _unlimited()
        logger.info("after")

    Child(_limited, log, "raise", fill).join()
    assert bodies(log)[-1] == "after"


@pytest.mark.slow
def test_a_full_disk_blocks_until_there_is_space(log: Path) -> None:
    def fill(handler: Handler, logger: logging.Logger) -> None:
        def log_all() -> None:
            for number in range(100):
                logger.info("%d %s", number, "x" * 30_000)

        thread = threading.Thread(target=log_all)
        thread.start()
        before = -1
        while (now := handler.counters.written) != before:
            before = now
            thread.join(timeout=0.3)
        assert now < 101
        _unlimited()
        thread.join()

    Child(_limited, log, "block", fill).join()
    assert [int(body.split()[0]) for body in bodies(log)[1:]] == list(range(100))


def _log_with_a_failing_disk(log: Path, mode: str) -> tuple[Counters, list[str]]:
    """Log, first with a disk on which syncs fail."""
    handler = Handler(log, modes={0: mode}, full="drop")
    with logger_of(handler) as logger:
        logger.info("before")
        handler.flush()
        arm(Injection(Action.FAIL, kinds=(Kind.DATA_SYNC, Kind.SYNC), count=-1, error=errno.EIO), str(log))
        logger.info("failed")
        counters = handler.counters
        arm(Injection(Action.NOTHING), str(log))
        logger.info("after")
    return counters, bodies(log)


@pytest.mark.slow
def test_a_poisoned_log_is_opened_again(in_memory: Path) -> None:
    log = in_memory / "log"
    run = run_preloaded(_log_with_a_failing_disk, log, "sync")
    counters, found = run.result
    assert counters.uncertain == 1
    assert found[0] == "before"
    assert "after" in found
    assert any("1 record of unknown outcome" in body for body in found)
    assert binlog.check(log) == []


def _open_again_on_a_disk_that_hangs(log: Path) -> list[str]:
    handler = Handler(log, wait=60, modes={0: "sync"})
    with logger_of(handler) as logger:
        logger.info("before")
        arm(Injection(Action.FAIL, kinds=(Kind.DATA_SYNC, Kind.SYNC), count=-1, error=errno.EIO), str(log))
        logger.info("failed")
        _set_wait(logger, _WAIT)
        arm(Injection(Action.HANG, kinds=(Kind.DATA_SYNC, Kind.SYNC), count=-1), str(log))
        with _in_time():
            logger.info("hangs")
        disarm()
        until(lambda: logger.info("after") or handler.counters.written > 1)  # type: ignore[func-returns-value]
    return bodies(log)


@pytest.mark.slow
def test_a_call_that_opens_a_poisoned_log_again_does_not_wait_for_a_disk_that_hangs(in_memory: Path) -> None:
    found = run_preloaded(_open_again_on_a_disk_that_hangs, in_memory / "log").result
    assert found[0] == "before"
    assert "after" in found


def _raise_with_a_failing_disk(log: Path) -> list[str]:
    handler = Handler(log, modes={0: "sync"}, full="raise")
    with logger_of(handler) as logger:
        arm(Injection(Action.FAIL, kinds=(Kind.DATA_SYNC, Kind.SYNC), count=-1, error=errno.EIO), str(log))
        raised = []
        for number in range(3):
            try:
                logger.info("failed %d", number)
            except BinlogError as error:
                raised.append(type(error).__name__)
        arm(Injection(Action.NOTHING), str(log))
    return raised


@pytest.mark.slow
def test_a_failing_disk_raises_each_time(in_memory: Path) -> None:
    assert len(run_preloaded(_raise_with_a_failing_disk, in_memory / "log").result) == 3


def test_a_log_that_is_locked_at_the_start_is_opened_later(log: Path) -> None:
    binlog.Writer(log).close()
    with foreign_lock(log):
        handler = Handler(log, wait=0.05, modes={0: "flush"})
    with logger_of(handler) as logger:
        until(lambda: logger.info("later") or handler.counters.written > 0)  # type: ignore[func-returns-value]
    assert bodies(log)[0] == "later"


@pytest.mark.slow
def test_losses_that_cannot_be_reported_are_written_to_the_stream(log: Path) -> None:
    stream = io.StringIO()
    handler = Handler(log, wait=0.05, modes={0: "flush"}, fallback=stream)
    with logger_of(handler) as logger, foreign_lock(log):
        logger.info("lost")
        handler.close()
    assert "1 record dropped since" in stream.getvalue()


def test_a_formatter_that_cannot_format_the_report_loses_no_record(log: Path) -> None:
    handler = Handler(log, wait=60, modes={0: "flush"}, formatter=logging.Formatter("%(order)d %(message)s"))
    with logger_of(handler) as logger:
        logger.info("before", extra={"order": 1})
        _set_wait(logger, _WAIT)
        with foreign_lock(log):
            logger.info("lost", extra={"order": 2})
        _set_wait(logger, 60.0)
        logger.info("after", extra={"order": 3})
    before, *_, report = read_all(log)
    assert before == b"1 before"
    assert event_of(report)["attributes"]["dropped"] + event_of(report)["attributes"]["uncertain"] == 1


def test_a_forked_child_counts_from_zero(log: Path) -> None:
    handler = Handler(log, wait=60, modes={0: "flush"})
    with logger_of(handler) as logger:
        logger.info("parent")
        _set_wait(logger, 0.05)
        with foreign_lock(log):
            logger.info("lost")

        def work() -> None:
            assert handler.counters == Counters(0, 0, 0, 0, 0)
            _set_wait(logger, 60.0)
            logger.info("child")
            assert handler.counters.written == 1
            handler.close()

        Child(work).join()
        _set_wait(logger, 60.0)
        logger.info("parent again")
    found = bodies(log)
    assert found[:2] == ["parent", "child"]
    assert len(_losses(log)) == 1


def test_threads_that_drop_records_are_all_counted(log: Path) -> None:
    handler = Handler(log, wait=60, modes={0: "flush"})
    with logger_of(handler) as logger:
        logger.info("first")
        _set_wait(logger, 0.01)
        with foreign_lock(log):
            threads = [threading.Thread(target=lambda: [logger.info("lost") for _ in range(5)]) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        counters = handler.counters
        assert counters.dropped + counters.uncertain == 40
        _set_wait(logger, 60.0)
        logger.info("after")
    assert sum(event["attributes"]["dropped"] for event in _losses(log)) == counters.dropped


def test_a_removed_directory_is_no_error_of_the_program(log: Path) -> None:
    handler = Handler(log, modes={0: "flush"}, wait=_WAIT)
    with logger_of(handler) as logger:
        logger.info("first")
        for path in log.iterdir():
            path.unlink()
        os.rmdir(log)
        logger.info("second")
        assert handler.counters.written + handler.counters.dropped == 2
