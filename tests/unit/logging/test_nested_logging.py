"""What is logged while a record is logged: by its arguments, filters, finalizers, signal handlers, other handlers."""

from __future__ import annotations

import gc
import logging
import logging.config
import logging.handlers
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import binlog
from binlog import Mode
from binlog.logging import Handler
from tests.support.events import bodies, events, logger_of
from tests.support.obstacles import foreign_lock
from tests.support.waiting import until


class _Talkative:
    """Logs when it is printed."""

    def __init__(self, logger: logging.Logger, *, itself: bool = False) -> None:
        self._logger, self._itself = logger, itself

    def __str__(self) -> str:
        self._logger.info("printed %s", self if self._itself else "it")
        return "text"

    __repr__ = __str__


def test_what_is_logged_while_a_record_is_formatted_follows_it(log: Path) -> None:
    handler = Handler(log, wait=60)
    with logger_of(handler) as logger:
        logger.info("value: %s", _Talkative(logger))
        logger.info("attribute", extra={"value": _Talkative(logger)})
        assert handler.counters.deferred == 2
    assert bodies(log) == ["value: text", "printed it", "attribute", "printed it"]


def test_an_object_that_logs_itself_ends(log: Path) -> None:
    handler = Handler(log, wait=60)
    with logger_of(handler) as logger:
        logger.info("value: %s", _Talkative(logger, itself=True))
        logger.info("next")
        counters = handler.counters
    assert counters.deferred == 8
    assert counters.dropped == 1
    found = bodies(log)
    assert found[:9] == ["value: text", *["printed text"] * 8]
    assert "1 record dropped" in found[9] or "1 record dropped" in found[10]
    assert "next" in found[9:]


def test_a_filter_that_logs_ends(log: Path) -> None:
    handler = Handler(log, wait=60)
    with logger_of(handler) as logger:

        def noisy(record: logging.LogRecord) -> bool:
            if not record.getMessage().startswith("filtered"):
                logger.info("filtered %s", record.getMessage())
            return True

        handler.addFilter(noisy)
        logger.info("one")
    assert bodies(log) == ["one", "filtered one"]


@pytest.mark.slow
def test_more_than_a_thousand_deferred_records_are_counted(log: Path) -> None:
    handler = Handler(log, wait=60)
    with logger_of(handler) as logger:

        class Noisy:
            def __str__(self) -> str:
                for number in range(1200):
                    logger.info("%d", number)
                return "noisy"

        logger.info("%s", Noisy())
        assert (handler.counters.deferred, handler.counters.dropped) == (1000, 200)
    assert [body for body in bodies(log) if body.isdigit()] == [str(number) for number in range(1000)]
    (report,) = [event for event in events(log) if event.get("event") == "binlog.losses"]
    assert report["attributes"]["dropped"] == 200


def test_two_handlers_may_log_into_each_other(tmp_path: Path) -> None:
    first, second = Handler(tmp_path / "first"), Handler(tmp_path / "second")
    with logger_of(first) as one, logger_of(second) as two:
        one.info("%s", _Talkative(two))
        two.info("%s", _Talkative(one))
    assert sorted(bodies(tmp_path / "first")) == ["printed it", "text"]
    assert sorted(bodies(tmp_path / "second")) == ["printed it", "text"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(Mode))
def test_a_signal_handler_at_1_khz_hangs_nothing_and_each_record_is_appended_or_counted(log: Path, mode: Mode) -> None:
    handler = Handler(log, modes={0: mode}, wait=60)
    received = []
    with logger_of(handler) as logger:

        def log_signal(number: int, frame: object) -> None:
            received.append(number)
            logger.info("signal")

        before = signal.signal(signal.SIGALRM, log_signal)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            count, end = 0, time.monotonic() + 2
            while time.monotonic() < end:
                logger.info("plain %s", "x" * 200)
                count += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        counters = handler.counters
    found = bodies(log)
    reports = [event for event in events(log) if event.get("event") == "binlog.losses"]
    assert len(received) > 20
    assert found.count("signal") == len(received) - counters.dropped
    assert counters.written == count + found.count("signal") == len(found) - len(reports)
    assert sum(event["attributes"]["dropped"] for event in reports) == counters.dropped
    assert counters.uncertain == 0
    # While the disk takes a second for a sync, a thousand signals arrive, and no more than that may wait.
    assert counters.dropped == 0 or mode is not Mode.STAGE


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.slow
def test_a_signal_handler_logs_within_an_append_of_another_writer(log: Path, mode: Mode) -> None:
    """The thread is within a call of that writer, so this one defers the record, and appends it when the call ends."""
    handler = Handler(log.with_name("other"), modes={0: mode}, wait=60)
    received = []
    with logger_of(handler) as logger, binlog.Writer(log) as writer:

        def log_signal(number: int, frame: object) -> None:
            received.append(number)
            logger.info("signal")

        before = signal.signal(signal.SIGALRM, log_signal)
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        try:
            while len(received) < 50:
                writer.append_many([b"x"] * 10)
                writer.sync()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert bodies(log.with_name("other")) == ["signal"] * len(received)
    assert binlog.check(log.with_name("other")) == []


@pytest.mark.slow
def test_closing_waits_for_a_deferred_record_that_a_thread_appends(log: Path) -> None:
    handler = Handler(log, wait=60)
    delivery = handler._sink._delivery
    with ExitStack() as locked:
        locked.enter_context(foreign_lock(log))
        delivery._defer(b'{"body": "deferred"}', Mode.FLUSH)  # as for a signal handler within a call of a writer
        until(lambda: not delivery._later)  # the thread has taken it, and waits for the lock
        timer = threading.Timer(0.2, locked.close)
        timer.start()
        handler.close()
        assert handler.counters.written == 1
        timer.join()
    assert bodies(log) == ["deferred"]


def test_a_finalizer_logs(log: Path) -> None:
    handler = Handler(log, wait=60)
    with logger_of(handler) as logger:

        class Collected:
            def __init__(self) -> None:
                self.cycle = self

            def __del__(self) -> None:
                logger.info("collected")

        class Collecting:
            def __str__(self) -> str:
                Collected()
                gc.collect()
                return "collecting"

        logger.info("%s", Collecting())
    assert bodies(log) == ["collecting", "collected"]
