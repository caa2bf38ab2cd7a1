"""structlog: a processor that encodes events, and loggers that append them, without `logging`.

    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, binlog.logging.structlog_bytes],
        logger_factory=binlog.logging.WriterLoggerFactory("app", static={"service.name": "shop"}),
    )

This module does not import structlog: a processor and a logger are any callables with the right arguments.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from binlog.logging.delivery import Counters
from binlog.logging.events import EventEncoder, current_trace
from binlog.logging.rendering import exception_fields, safe_text
from binlog.logging.sink import Sink

_LEVELS = {
    "debug": 10, "info": 20, "msg": 20, "log": 20, "warn": 30, "warning": 30, "error": 40, "err": 40, "failure": 40,
    "exception": 40, "critical": 50, "fatal": 50,
}  # fmt: skip
_NAMES = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}
_PLAIN = EventEncoder()


def structlog_bytes(logger: object, method: str, event_dict: MutableMapping[str, Any]) -> bytes:
    """Return the line of an event: a processor for the end of structlog's chain, before a WriterLogger.

    The event's text becomes the body; `level` and `logger`, which other processors add, become fields; `exc_info`
    becomes the attributes of an exception; everything else becomes an attribute.
    """
    fields = dict(event_dict)
    body, info = fields.pop("event", ""), fields.pop("exc_info", None)
    method = str(fields.pop("level", method))
    name = fields.pop("logger", None) or getattr(logger, "name", "")
    level = _LEVELS.get(method, 20)
    if info:
        fields.update(exception_fields(_exception_info(info)))
    encoder: EventEncoder = getattr(logger, "encoder", _PLAIN)
    return encoder.line(
        time.time(),
        level,
        _NAMES[level],
        safe_text(name),
        body if isinstance(body, str) else safe_text(body),
        fields,
        trace=current_trace(),
    ).encode("utf-8", "backslashreplace")


class WriterLogger:
    """A logger for structlog that appends the bytes which the processors return.

    name: of the logger.  encoder: of the events of structlog_bytes.
    """

    def __init__(self, sink: Sink, encoder: EventEncoder, name: str) -> None:
        self._sink, self.encoder, self.name = sink, encoder, name

    def __getattr__(self, method: str) -> Callable[..., None]:
        level = _LEVELS.get(method)
        if level is None:
            raise AttributeError(f"a WriterLogger has no method {method!r}")
        append = self._sink.append

        def log(message: bytes | str) -> None:
            append(message if isinstance(message, str) else message.decode("utf-8", "backslashreplace"), level)

        self.__dict__[method] = log
        return log

    def __repr__(self) -> str:
        return f"<binlog.logging.WriterLogger {self.name!r}>"


class WriterLoggerFactory:
    """Makes loggers for structlog that share one writer.

    path, options: as for binlog.logging.Handler, without `level` and `formatter`.
    The name of a logger is the first argument of `structlog.get_logger`.
    Raises: as Handler.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, static: Mapping[str, object] | None = None, **options: Any
    ) -> None:
        self._sink = Sink(path, **options)
        self._encoder = EventEncoder(static)

    def __call__(self, *names: Any) -> WriterLogger:
        """Return a logger."""
        return WriterLogger(self._sink, self._encoder, str(names[0]) if names else "")

    @property
    def counters(self) -> Counters:
        """The numbers of records so far, in this process; see Counters."""
        return self._sink.counters

    def sync(self) -> None:
        """Make everything logged so far durable.  Blocks and raises as binlog.Writer.sync."""
        self._sink.sync()

    def close(self) -> None:
        """Make everything durable, and close the log."""
        self._sink.close()


def _exception_info(info: Any) -> Any:
    if isinstance(info, BaseException):
        return type(info), info, info.__traceback__
    return info if isinstance(info, tuple) else sys.exc_info()
