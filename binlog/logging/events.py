"""Events: one JSON object in one line, with the names of OpenTelemetry's log data model.

    {"time": "2026-11-27T15:04:05.123456Z", "severity": 9, "level": "INFO", "logger": "app.db", "body": "connected",
     "event": "db.connect", "attributes": {"order": 7}, "trace_id": "...", "span_id": "...",
     "resource": {"service.name": "shop", "host.name": "a1", "process.pid": 4711}, "code": {...}}

`event`, `attributes`, `trace_id` with `span_id`, and `code` are present only if there is something in them.  All lines
of one log begin with the same fields in the same order, so a program that filters can find the level and the logger in
the bytes, and parse only the lines that pass.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from binlog.logging.rendering import json_text, quote, safe_text

TRACE_MAX, SEVERITY_MAX = 4, 24

_NAMES_MAX = 4096  # names to keep: a program may make a logger for each of its requests
_INT_MAX = 1 << 63
_NO_ATTRIBUTES: dict[str, object] = {}


def severity(level: int) -> int:
    """Return OpenTelemetry's severity number, 1 to 24, of a level of `logging`: 20 (INFO) is 9, 30 (WARNING) is 13."""
    return min(SEVERITY_MAX, max(1, 1 + level * 4 // 10))


def level_of(severity_number: int) -> int:
    """Return the level of `logging` for a severity number: the least that has it."""
    return -(-(severity_number - 1) * 10 // 4)


def current_trace() -> tuple[int, int] | None:
    """Return the ids of the current trace and span; None if the program does not use OpenTelemetry or has no span."""
    # Another thread may be importing OpenTelemetry.
    current_span = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current_span is None:
        return None
    context = current_span().get_span_context()
    return (context.trace_id, context.span_id) if context.is_valid else None


class EventEncoder:
    """Encodes events.

    static: fields of the resource, which are the same in each event, such as {"service.name": "shop"}.
    """

    def __init__(self, static: Mapping[str, object] | None = None) -> None:
        self._static = {"host.name": socket.gethostname(), **(static or {})}
        self._second = (-1, "")
        self._heads: dict[tuple[object, str], str] = {}
        self._tail = (-1, "")

    def resource(self, pid: int) -> dict[str, object]:
        """Return the fields of the resource."""
        return {**self._static, "process.pid": pid}

    def line(
        self,
        created: float,
        level: int,
        level_name: str | None,
        logger: str,
        body: str,
        attributes: Mapping[str, object] = _NO_ATTRIBUTES,
        *,
        event: str | None = None,
        trace: tuple[int, int] | None = None,
        pid: int | None = None,
        code: Mapping[str, object] | None = None,
        severity_number: int | None = None,
        body_text: str | None = None,
    ) -> str:
        """Return the line of an event, without a line feed.

        created: seconds since 1970.  level: of `logging`.  level_name: must be the same each time for one level and
        logger.  severity_number: if it is not that of the level.  body_text: JSON to use in place of the body.
        """
        second = int(created)
        known, since = self._second
        if known != second:
            since = self._begin_second(second)
        head = self._heads.get((level_name or level, logger))
        if head is None or severity_number is not None:
            head = self._head(level, level_name, logger, severity_number)
        more = ""
        if event is not None:
            more = f',"event":{quote(event)}'
        if attributes:
            more += f',"attributes":{_object(attributes)}'
        if trace is not None:
            more += f',"trace_id":"{trace[0]:032x}","span_id":"{trace[1]:016x}"'
        if pid is None:
            pid = os.getpid()
        of_pid, tail = self._tail
        if of_pid != pid:
            tail = self._begin_pid(pid)
        if code is not None:
            tail += f',"code":{_object(code)}'
        text = quote(body) if body_text is None else body_text
        return f"{since}{int((created - second) * 1e6):06d}{head}{text}{more}{tail}}}"

    def _begin_second(self, second: int) -> str:
        text = time.strftime('{"time":"%Y-%m-%dT%H:%M:%S.', time.gmtime(second))
        self._second = (second, text)
        return text

    def _begin_pid(self, pid: int) -> str:
        text = f',"resource":{_object(self.resource(pid))}'
        self._tail = (pid, text)
        return text

    def _head(self, level: int, level_name: str | None, logger: str, severity_number: int | None) -> str:
        number = severity(level) if severity_number is None else severity_number
        name = _level_name(level) if level_name is None else level_name
        text = f'Z","severity":{number},"level":{quote(name)},"logger":{quote(logger)},"body":'
        if severity_number is None:
            if len(self._heads) >= _NAMES_MAX:
                self._heads = {}
            self._heads[level_name or level, logger] = text
        return text


def _level_name(level: int) -> str:
    # Not the name in the record: formatters that colour a terminal change it there.
    return logging.getLevelName(level)


def _object(fields: Mapping[str, Any]) -> str:
    """Return a JSON object."""
    parts = []
    for name, value in fields.items():
        kind = type(value)
        if kind is str:
            text = quote(value)
        elif kind is int and -_INT_MAX < value < _INT_MAX:
            text = repr(value)
        else:
            text = json_text(value)
        parts.append((_names.get(name) or _name(name)) + text)
    return f"{{{','.join(parts)}}}"


_names: dict[object, str] = {}  # of fields, as JSON with a colon


def _name(name: object) -> str:
    text = f"{quote(name if type(name) is str else safe_text(name))}:"
    if type(name) is str and len(_names) < _NAMES_MAX:
        _names[name] = text
    return text
