"""OpenTelemetry: an exporter that appends the records of its log SDK.

    provider.add_log_record_processor(SimpleLogRecordProcessor(binlog.logging.Exporter("app")))

Use the simple processor: an append in Mode.STAGE takes less time than the queue of the batch processor, which loses
its records at a SIGKILL, and has no thread in a forked child.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult

from binlog.errors import BinlogError
from binlog.logging.delivery import Counters
from binlog.logging.events import EventEncoder, level_of
from binlog.logging.rendering import json_text
from binlog.logging.sink import Sink


class Exporter(LogRecordExporter):
    """Appends log records as events.

    path, options: as for binlog.logging.Handler, without `level`, `formatter` and `static`: the resource is that of the
    provider.
    Raises: as Handler.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self._sink = Sink(path, **options)
        self._encoders: dict[int, tuple[object, EventEncoder]] = {}

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Append the records of a batch.

        Blocks: for `wait` seconds a record at most.  Returns FAILURE with Full.RAISE, if the log cannot take a record.
        """
        try:
            for each in batch:
                self._append(each)
        except BinlogError:
            return LogRecordExportResult.FAILURE
        return LogRecordExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        """Make everything exported so far durable; return whether that succeeded.  Blocks: until it has ended."""
        try:
            self._sink.sync()
        except BinlogError:
            return False
        return True

    def shutdown(self) -> None:
        """Make everything durable, and close the log."""
        self._sink.close()

    @property
    def counters(self) -> Counters:
        """The numbers of records so far, in this process; see Counters."""
        return self._sink.counters

    def _append(self, each: ReadableLogRecord) -> None:
        record, scope = each.log_record, each.instrumentation_scope
        number = record.severity_number.value if record.severity_number is not None else 0
        level = level_of(max(number, 1))
        body = record.body
        line = self._encoder_of(each.resource).line(
            (record.timestamp or record.observed_timestamp or 0) / 1e9,
            level,
            record.severity_text or "",
            scope.name if scope is not None else "",
            body if isinstance(body, str) else "",
            dict(record.attributes or {}),
            event=record.event_name or None,
            trace=(record.trace_id, record.span_id) if record.trace_id and record.span_id else None,
            severity_number=number,
            body_text=None if isinstance(body, str) else json_text(body),
        )
        self._sink.append(line, level)

    def _encoder_of(self, resource: Any) -> EventEncoder:
        """Return the encoder for a resource; a provider has one resource."""
        found = self._encoders.get(id(resource))
        if found is None:
            found = self._encoders[id(resource)] = (resource, EventEncoder(resource.attributes))
        return found[1]
