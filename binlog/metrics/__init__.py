"""Metrics of logs for Prometheus and other systems that read its text formats.

`log_families` turns the state of logs (binlog/watching) into families of samples, and `program_families` does the same
with the counters of the writers and handlers in this process.  `families` also writes them in two text formats, and
`Collector` serves them from the registry of a program that uses prometheus_client.  It needs the extra `metrics`; the
others need nothing.
"""

from typing import TYPE_CHECKING

from binlog.metrics.families import Exposition, Family, Kind, Sample, expose, write_textfile
from binlog.metrics.log_families import log_families
from binlog.metrics.program_families import program_families

if TYPE_CHECKING:
    from binlog.metrics.collector import Collector

__all__ = [
    "Collector",
    "Exposition",
    "Family",
    "Kind",
    "Sample",
    "expose",
    "log_families",
    "program_families",
    "write_textfile",
]


def __getattr__(name: str) -> object:
    # Imported on first use, because it needs the extra `metrics`.
    if name == "Collector":
        from binlog.metrics.collector import Collector

        return Collector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
