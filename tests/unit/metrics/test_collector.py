"""A program's registry of prometheus_client has the metrics of logs, and of its own writers and handlers."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import binlog
from binlog.logging import Handler
from binlog.metrics import Collector, expose, log_families
from tests.support.watched_log import make_watched_log

# These change from one call to the next.
_TIMES = ("binlog_metrics_timestamp_seconds", "binlog_group_lag_seconds", "binlog_follower_lag_seconds")


def _samples(metrics: Iterable[Metric]) -> set[tuple[str, str, str, frozenset[tuple[str, str]], float]]:
    return {
        (metric.name, metric.type, metric.unit, frozenset(sample.labels.items()), sample.value)
        for metric in metrics
        for sample in metric.samples
        if metric.name not in _TIMES
        and not metric.name.startswith("binlog_filesystem")
        and not sample.name.endswith("_created")
    }


@pytest.mark.slow
def test_a_registry_gives_what_the_command_prints(tmp_path: Path) -> None:
    log = tmp_path / "log"
    make_watched_log(log)
    registry = CollectorRegistry()
    registry.register(Collector([log]))
    by_registry = _samples(text_string_to_metric_families(generate_latest(registry).decode()))
    printed = _samples(text_string_to_metric_families(expose(log_families([log]))))
    assert by_registry == printed
    assert len(printed) > 40


def test_a_collector_is_registered_before_its_log_exists(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    registry.register(Collector([tmp_path / "log"]))
    assert registry.get_sample_value("binlog_up", {"log": str(tmp_path / "log")}) == 0
    binlog.Writer(tmp_path / "log").close()
    assert registry.get_sample_value("binlog_up", {"log": str(tmp_path / "log")}) == 1


def test_writers_and_handlers_are_counted(tmp_path: Path) -> None:
    handler = Handler(tmp_path / "events")
    record = logging.LogRecord("metrics", logging.WARNING, __file__, 1, "one", None, None)
    with binlog.Writer(tmp_path / "log") as writer:
        registry = CollectorRegistry()
        registry.register(Collector([], writers={"orders": writer}, handlers={"events": handler}))
        for mode in (binlog.Mode.SYNC, binlog.Mode.SYNC, binlog.Mode.FLUSH):
            writer.append(b"record", mode=mode)
        handler.handle(record)

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(f"binlog_{name}_total", labels)

        assert value("writer_records", writer="orders", mode="sync") == 2
        assert value("writer_bytes", writer="orders", mode="flush") == 6
        assert value("writer_syncs", writer="orders") == writer.stat().syncs
        assert value("handler_records", handler="events", outcome="written") == 1
        assert value("handler_records", handler="events", outcome="dropped") == 0
    handler.close()
