"""structlog, loguru and OpenTelemetry, as they are installed, append events to a log."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from loguru import logger as loguru_logger
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from binlog.logging import Exporter, WriterLoggerFactory, loguru_sink, structlog_bytes
from tests.support.events import bodies, events
from tests.support.obstacles import foreign_lock


@pytest.fixture
def factory(log: Path) -> Iterator[WriterLoggerFactory]:
    factory = WriterLoggerFactory(log, static={"service.name": "shop"})
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog_bytes,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )
    yield factory
    structlog.reset_defaults()
    factory.close()


def test_structlog_appends_events(log: Path, factory: WriterLoggerFactory) -> None:
    logger = structlog.get_logger("app.db").bind(order=7)
    structlog.contextvars.bind_contextvars(request="r-1")
    logger.debug("filtered")
    logger.warning("slow", seconds=1.5)
    try:
        raise ValueError("bad")
    except ValueError:
        logger.exception("failed")
    structlog.contextvars.clear_contextvars()
    logger.info("%d items", 3)
    factory.sync()
    slow, failed, formatted = events(log)
    assert (slow["level"], slow["logger"], slow["body"]) == ("WARNING", "app.db", "slow")
    assert slow["attributes"] == {"order": 7, "request": "r-1", "seconds": 1.5}
    assert slow["resource"]["service.name"] == "shop"
    assert failed["severity"] == 17
    assert failed["attributes"]["exception.type"] == "ValueError"
    assert "in test_structlog" in failed["attributes"]["exception.stacktrace"]
    assert formatted["body"] == "3 items"
    assert factory.counters.written == 3


def test_a_structlog_logger_has_only_methods_of_levels(factory: WriterLoggerFactory) -> None:
    logger = factory("name")
    assert repr(logger) == "<binlog.logging.WriterLogger 'name'>"
    with pytest.raises(AttributeError, match="shout"):
        logger.shout  # noqa: B018 - the attribute is what is tested


def test_loguru_appends_events(log: Path) -> None:
    sink = loguru_sink(log, static={"service.name": "shop"}, code=True)
    number = loguru_logger.add(sink, format="{message}", level="TRACE", enqueue=False, catch=False)
    try:
        loguru_logger.bind(order=7, event="db.connect").success("connected to {}", "db1")
        loguru_logger.trace("fine")
        try:
            raise ValueError("bad")
        except ValueError:
            loguru_logger.exception("failed")
        sink.sync()
        connected, fine, failed = events(log)
    finally:
        loguru_logger.remove(number)
    assert (connected["level"], connected["severity"]) == ("SUCCESS", 11)
    assert (connected["body"], connected["event"], connected["attributes"]) == (
        "connected to db1", "db.connect", {"order": 7},
    )  # fmt: skip
    assert connected["code"]["function"] == "test_loguru_appends_events"
    assert fine["severity"] == 3
    assert failed["attributes"]["exception.message"] == "bad"
    assert sink.counters.written == 3


def _export(log: Path, exporter: Exporter) -> tuple[dict[str, Any], ...]:
    provider = LoggerProvider(Resource.create({"service.name": "shop"}))
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("app.db")
    with TracerProvider().get_tracer("test").start_as_current_span("work") as span:
        logger.emit(
            LogRecord(
                timestamp=1_764_255_845_123_456_000,
                severity_number=SeverityNumber.WARN2,
                severity_text="WARN",
                body="connected",
                attributes={"order": 7},
                event_name="db.connect",
            )
        )
    logger.emit(LogRecord(timestamp=1, severity_number=SeverityNumber.INFO, body={"a": [1, None]}))
    provider.shutdown()
    first, second = events(log)
    assert first["trace_id"] == f"{span.get_span_context().trace_id:032x}"
    return first, second


def test_opentelemetry_exports_events(log: Path) -> None:
    first, second = _export(log, Exporter(log))
    assert (first["time"], first["severity"], first["level"]) == ("2025-11-27T15:04:05.123456Z", 14, "WARN")
    assert (first["logger"], first["body"], first["event"]) == ("app.db", "connected", "db.connect")
    assert first["attributes"] == {"order": 7}
    assert first["resource"]["service.name"] == "shop"
    assert second["body"] == {"a": [1, None]}


def test_an_export_that_the_log_refuses_fails(log: Path) -> None:
    from opentelemetry.sdk._logs.export import LogRecordExportResult

    exporter = Exporter(log, full="raise", wait=60, modes={0: "flush"})
    provider = LoggerProvider()
    results = []

    class Recorded(SimpleLogRecordProcessor):
        def on_emit(self, log_record: Any) -> None:
            results.append(exporter.export([log_record]))

    provider.add_log_record_processor(Recorded(exporter))
    logger = provider.get_logger("app")
    logger.emit(LogRecord(timestamp=1, body="first"))
    exporter._sink._delivery.wait = 0.1
    with foreign_lock(log):
        logger.emit(LogRecord(timestamp=1, body="refused"))
    assert results == [LogRecordExportResult.SUCCESS, LogRecordExportResult.FAILURE]
    assert exporter.force_flush()
    exporter.shutdown()
    assert bodies(log) == ["first"]


@pytest.mark.slow
def test_the_handler_imports_none_of_them() -> None:
    script = (
        "import sys, binlog.logging\n"
        "binlog.logging.WriterLoggerFactory, binlog.logging.loguru_sink, binlog.logging.OtlpFormatter\n"
        "print(sorted({'structlog', 'loguru', 'opentelemetry'} & {name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
