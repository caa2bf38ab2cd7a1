"""The formatter of events, for handlers of `logging`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import islice

from binlog.logging.events import EventEncoder, current_trace
from binlog.logging.rendering import exception_fields, message_of

_STANDARD = tuple(logging.LogRecord("", 0, "", 0, "", None, None).__dict__)
_STANDARD_COUNT = len(_STANDARD)
# Formatters of the standard library leave `message` and `asctime` in a record.
_RESERVED = frozenset({*_STANDARD, "message", "asctime", "taskName"})


def attributes_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the attributes of a record: its `extra`, and its exception and stack, which win over equal names."""
    values = record.__dict__
    # A LogRecord sets its own attributes first; a subclass may set others before.
    first = _STANDARD_COUNT if type(record) is logging.LogRecord else 0
    found = {name: value for name, value in islice(values.items(), first, None) if name not in _RESERVED}
    if record.exc_info:
        found.update(exception_fields(record.exc_info))
    elif record.exc_text:  # all that is left of an exception if the record was sent by another process
        found["exception.stacktrace"] = record.exc_text
    if record.stack_info:
        found["stack"] = record.stack_info
    return found


class JsonFormatter(logging.Formatter):
    """Formats a record as an event: one JSON object, in one line.  docs/logging.md describes the fields.

    static: fields of the resource, such as {"service.name": "shop"}; the host's name and the process id are added.
    code: also the file, line and function of the call.

    An `extra` with the name `event`, if it is a text, is the event's name; all others are attributes.
    Raises nothing, whatever is logged: see binlog/logging/rendering.py.
    """

    def __init__(self, *, static: Mapping[str, object] | None = None, code: bool = False) -> None:
        super().__init__()
        self._static, self._code = static, code
        self._line = EventEncoder(static).line

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of the event."""
        attributes: dict[str, object] = {}
        event = None
        if len(record.__dict__) > _STANDARD_COUNT or record.exc_info or record.exc_text or record.stack_info:
            attributes = attributes_of(record)
            if type(attributes.get("event")) is str:
                event = attributes.pop("event")
        code = None
        if self._code:
            code = {"file": record.pathname, "line": record.lineno, "function": record.funcName}
        return self._line(
            record.created,
            record.levelno,
            None,
            record.name,
            message_of(record),
            attributes,
            event=event,  # type: ignore[arg-type]
            trace=current_trace(),
            pid=record.process,
            code=code,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _json_formatter, (self._static, self._code)


def _json_formatter(static: Mapping[str, object] | None, code: bool) -> JsonFormatter:
    return JsonFormatter(static=static, code=code)
