"""Logging into a log: a handler for the standard library's `logging`, events, and adapters for other libraries.

`Handler` (handler.py) formats a record and passes the text to a `Sink` (sink.py), which cuts it if it is too long
(truncation.py) and chooses the mode.  `Delivery` (delivery.py) appends it within a time limit and by a policy.
`JsonFormatter` makes an event of a record: events.py has the schema, and rendering.py makes text and JSON of any value.
The adapters use a sink too, without a handler.  docs/logging.md is for users.
"""

from typing import TYPE_CHECKING, Any

from binlog.logging.audit import Audit, audit
from binlog.logging.delivery import Counters, Full
from binlog.logging.handler import Handler
from binlog.logging.json_formatter import JsonFormatter
from binlog.logging.sink import MODES

if TYPE_CHECKING:
    from binlog.logging.loguru_adapter import loguru_sink
    from binlog.logging.opentelemetry_adapter import Exporter
    from binlog.logging.otlp_formatter import OtlpFormatter
    from binlog.logging.structlog_adapter import WriterLoggerFactory, structlog_bytes

__all__ = [
    "MODES",
    "Audit",
    "Counters",
    "Exporter",
    "Full",
    "Handler",
    "JsonFormatter",
    "OtlpFormatter",
    "WriterLoggerFactory",
    "audit",
    "loguru_sink",
    "structlog_bytes",
]

# Names that few programs use; `Exporter` needs OpenTelemetry's SDK.
_LATER = {
    "Exporter": "binlog.logging.opentelemetry_adapter",
    "OtlpFormatter": "binlog.logging.otlp_formatter",
    "WriterLoggerFactory": "binlog.logging.structlog_adapter",
    "loguru_sink": "binlog.logging.loguru_adapter",
    "structlog_bytes": "binlog.logging.structlog_adapter",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
