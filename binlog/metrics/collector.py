"""Collector: metrics of logs in the registry of a program that uses prometheus_client."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

import binlog
from binlog.metrics.families import Family, Kind
from binlog.metrics.log_families import log_families
from binlog.metrics.program_families import Counting, program_families

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector as _Base
except ImportError as error:
    raise ImportError("binlog.metrics.Collector needs prometheus_client, the extra 'metrics'") from error


class Collector(_Base):
    """Gives a registry the metrics of logs each time that they are asked for.

    paths: directories of logs.  positions: of more followers; see `log_families`.
    writers, handlers: of this process, by the names that their samples get; see `program_families`.  A writer that was
    closed must be taken out of the mapping, which may change at any time.

        REGISTRY.register(Collector(["/var/lib/events"]))

    Reads headers when it is asked, and holds no file open in between.  A log that cannot be read has the sample
    `binlog_up` with 0, and no others.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        positions: Iterable[str] = (),
        writers: Mapping[str, binlog.Writer] | None = None,
        handlers: Mapping[str, Counting] | None = None,
    ) -> None:
        self._paths = [os.fspath(path) for path in paths]
        self._positions = tuple(positions)
        self._writers = {} if writers is None else writers
        self._handlers = {} if handlers is None else handlers

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that a registry does not read the logs when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the present metrics."""
        families = log_families(self._paths, self._positions)
        for family in [*families, *program_families(writers=self._writers, handlers=self._handlers)]:
            if family.samples:
                yield _metric(family)


def _metric(family: Family) -> Metric:
    names = list(family.samples[0].labels)
    kind = CounterMetricFamily if family.kind is Kind.COUNTER else GaugeMetricFamily
    metric = kind(family.name, family.text, labels=names, unit=family.unit)
    for labels, value in family.samples:
        metric.add_metric(list(labels.values()), value)
    return metric
