"""The counters of the writers and the logging handlers in this process, as families."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import binlog
from binlog import Mode
from binlog.metrics.families import Family, Kind

if TYPE_CHECKING:
    from binlog.logging import Counters

_NS = 10**9


class Counting(Protocol):
    """A handler or sink of binlog.logging."""

    @property
    def counters(self) -> Counters:
        """Its records by outcome."""


def program_families(
    *, writers: Mapping[str, binlog.Writer] | None = None, handlers: Mapping[str, Counting] | None = None
) -> list[Family]:
    """Return the counters of open writers, and of handlers and sinks of binlog.logging, by the names given.

    In a child process they begin again at 0.
    Raises: ClosedError for a writer that is closed.
    """
    return [*_writer_families(writers or {}), *_handler_families(handlers or {})]


def _writer_families(writers: Mapping[str, binlog.Writer]) -> list[Family]:
    records = Family("binlog_writer_records", Kind.COUNTER, "Records that the writer appended, by mode.")
    sizes = Family("binlog_writer_bytes", Kind.COUNTER, "Bytes of the records that the writer appended.", "bytes")
    groups = Family("binlog_writer_led_groups", Kind.COUNTER, "Groups that the writer committed as the leader.")
    led = Family("binlog_writer_led_records", Kind.COUNTER, "Records in those groups, of all writers.")
    syncs = Family("binlog_writer_syncs", Kind.COUNTER, "Commits that the writer synced.")
    waits = Family("binlog_writer_waits", Kind.COUNTER, "Appends that waited for another writer or thread.")
    waited = Family("binlog_writer_wait_seconds", Kind.COUNTER, "Time of these waits.", "seconds")
    longest = Family("binlog_writer_wait_max_seconds", Kind.GAUGE, "The longest of these waits.", "seconds")
    failed = Family("binlog_writer_failed_appends", Kind.COUNTER, "Appends with another outcome: busy, or unknown.")
    for name, writer in writers.items():
        stat = writer.stat()
        for mode in (each.name.lower() for each in Mode):
            records.add(getattr(stat, f"records_{mode}"), writer=name, mode=mode)
            sizes.add(getattr(stat, f"bytes_{mode}"), writer=name, mode=mode)
        groups.add(stat.led_groups, writer=name)
        led.add(stat.led_records, writer=name)
        syncs.add(stat.syncs, writer=name)
        waits.add(stat.waits, writer=name)
        waited.add(stat.wait_ns / _NS, writer=name)
        longest.add(stat.wait_ns_max / _NS, writer=name)
        failed.add(stat.busy, writer=name, outcome="busy")
        failed.add(stat.unknown, writer=name, outcome="unknown")
    return [records, sizes, groups, led, syncs, waits, waited, longest, failed]


def _handler_families(handlers: Mapping[str, Counting]) -> list[Family]:
    records = Family("binlog_handler_records", Kind.COUNTER, "Log records by outcome: written, dropped, or uncertain.")
    deferred = Family("binlog_handler_deferred", Kind.COUNTER, "Log records made within a logging call.")
    cut = Family("binlog_handler_cut", Kind.COUNTER, "Log records that were longer than record_bytes_max.")
    for name, handler in handlers.items():
        counters = handler.counters
        for outcome in ("written", "dropped", "uncertain"):
            records.add(getattr(counters, outcome), handler=name, outcome=outcome)
        deferred.add(counters.deferred, handler=name)
        cut.add(counters.cut, handler=name)
    return [records, deferred, cut]
