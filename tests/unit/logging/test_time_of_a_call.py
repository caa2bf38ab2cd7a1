"""The time limit of a call includes the records logged within it, and no call and no exit waits forever."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog.logging import Handler
from tests.support.children import run_script
from tests.support.events import bodies, events, logger_of
from tests.support.obstacles import foreign_lock

_WAIT = 0.1
# Generous, for a busy machine; without the shared limit, each test would take twice as long.
_LATE = 5.0
_COUNT = 100


@contextmanager
def _in_time() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < _WAIT + _LATE


@contextmanager
def _busy(log: Path, **options: object) -> Iterator[logging.Logger]:
    """Yield a logger while another program has the lock of its log."""
    handler = Handler(log, wait=60, **options)  # type: ignore[arg-type]
    with logger_of(handler) as logger:
        logger.warning("before")
        handler._sink._delivery.wait = _WAIT
        with foreign_lock(log):
            yield logger
        handler._sink._delivery.wait = 60.0


def _handler_of(logger: logging.Logger) -> Handler:
    (handler,) = logger.handlers
    assert isinstance(handler, Handler)
    return handler


def test_records_logged_while_one_is_formatted_share_its_time_limit(log: Path) -> None:
    class Talkative:
        def __str__(self) -> str:
            for number in range(_COUNT):
                logger.warning("nested %d", number)
            return "outer"

    with _busy(log) as logger:
        with _in_time():
            logger.warning(Talkative())
        counters = _handler_of(logger).counters
        assert counters.written + counters.dropped + counters.uncertain == 1 + 1 + _COUNT
    # Records that are only staged after the time limit are in the log as well.
    assert sum(body.startswith("nested") for body in bodies(log)) >= counters.written - 1


@pytest.mark.slow
def test_a_signal_handler_that_logs_does_not_keep_a_call_from_returning(log: Path) -> None:
    ticks = iter(range(_COUNT))

    def tick(*_: object) -> None:
        if next(ticks, None) is None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        logger.warning("tick")

    before = signal.signal(signal.SIGALRM, tick)
    try:
        with _busy(log) as logger:
            signal.setitimer(signal.ITIMER_REAL, _WAIT / 2, _WAIT / 2)
            with _in_time():
                logger.warning("main")
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_report_of_losses_does_not_delay_a_record_that_is_staged(log: Path) -> None:
    with _busy(log) as logger:
        logger.warning("lost")
        with _in_time():
            for number in range(_COUNT):
                logger.info("%d", number)
        assert _handler_of(logger).counters.written == 1 + _COUNT
    assert [event["attributes"]["dropped"] for event in events(log) if event.get("event") == "binlog.losses"] == [1]


def test_a_standard_error_that_logs_does_not_repeat_a_loss(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class ToLogger:
        """As programs make that redirect standard error to their log."""

        def __init__(self) -> None:
            self.left = 20  # the test must end

        def write(self, text: str) -> None:
            self.left -= 1
            if self.left:
                logger.error(text)

        def flush(self) -> None:
            pass

    monkeypatch.setattr(sys, "stderr", ToLogger())
    with _busy(log, full="fallback") as logger:
        logger.warning("lost")
        counters = _handler_of(logger).counters
        assert counters.dropped + counters.uncertain == 1


_DAEMONS = """
import atexit, gc, sys, threading, time
def until_daemons_log_again():  # runs after logging.shutdown, because it is registered before
    count = handler.counters.written
    while handler.counters.written < count + 10:
        time.sleep(0.001)
atexit.register(until_daemons_log_again)
import logging
import binlog.logging
handler = binlog.logging.Handler(sys.argv[1])
logger = logging.getLogger()
logger.addHandler(handler)
class Session:  # as a client that complains if it was not closed
    def __init__(self):
        self.itself = self
    def __del__(self, logger=logger):
        logger.error("unclosed session")
gc.disable()  # the session is collected when the interpreter ends
Session()
def work():
    while True:
        logger.critical("working")
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
"""


@pytest.mark.slow
def test_a_finalizer_does_not_wait_for_a_daemon_thread_that_has_ended(log: Path) -> None:
    for _ in range(10):
        done = run_script(_DAEMONS, log)  # fails after 60 s
        assert done.returncode == 0
        assert "Traceback" not in done.stderr
        assert "unclosed session" in bodies(log) or "a record is lost: BusyError" in done.stderr
