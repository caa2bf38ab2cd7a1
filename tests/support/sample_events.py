"""Events and other records for tests, and a filter of them in plain Python."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable
from typing import Any

from binlog.cli.looking.event_fields import MISSING, field_of, text_of

LOGGERS = ("app", "app.db", "app.db.pool", "audit")
LEVELS = ((5, "DEBUG"), (9, "INFO"), (13, "WARNING"), (17, "ERROR"), (21, "CRITICAL"))


def event_record(number: int) -> bytes:
    """Return a record: an event, and sometimes an odd one, or no event at all."""
    if number % 13 == 0:
        return b"plain text %d with \xff\n and \x1b[31m" % number
    severity, level = LEVELS[number % 5]
    event: dict[str, Any] = {
        "time": f"2026-01-02T03:04:05.{number % 1000000:06}Z",
        "severity": severity,
        "level": level,
        "logger": LOGGERS[number % 4],
        "body": f"request {number}",
        "attributes": {"order": number % 7, "customer": {"id": f"c{number % 3}"}, "exception.type": "ValueError"},
    }
    if number % 11 == 0:
        event["attributes"]["nested"] = {"severity": 21, "logger": "app.db", "order": 5}
        event = dict(reversed(event.items()))
    text = json.dumps(event, separators=(",", ":")) if number % 3 else json.dumps(event, indent=1)
    return (text.replace('"app', '"\\u0061pp') if number % 17 == 0 else text).encode()


def plain_filter(
    *,
    level: int | None = None,
    loggers: tuple[str, ...] = (),
    fields: tuple[tuple[str, str], ...] = (),
    greps: tuple[str, ...] = (),
    excludes: tuple[str, ...] = (),
) -> Callable[[bytes], bool]:
    """Return a function that parses every record and says whether it matches."""

    def matches(data: bytes) -> bool:
        if not all(re.search(grep.encode(), data) for grep in greps):
            return False
        if any(re.search(grep.encode(), data) for grep in excludes):
            return False
        if level is None and not loggers and not fields:
            return True
        try:
            event = json.loads(data.decode())
        except ValueError:
            return False
        if not isinstance(event, dict):
            return False
        severity = event.get("severity")
        if level is not None and not (type(severity) is int and level <= severity <= 24):
            return False
        logger = event.get("logger")
        if loggers and not (isinstance(logger, str) and any(fnmatch.fnmatchcase(logger, glob) for glob in loggers)):
            return False
        values = [(field_of(event, name), value) for name, value in fields]
        return all(found is not MISSING and text_of(found) == value for found, value in values)

    return matches
