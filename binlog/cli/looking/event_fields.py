"""Events: records that are JSON objects, their severities, and their fields by name.

An event has the names of OpenTelemetry's log data model in snake case: time, severity (1 to 24), level, logger, body,
event, attributes, trace_id, span_id, resource, code.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import binlog
from binlog.cli.looking.times import moment_ns

Event = Mapping[str, Any]

# Not limited to ASCII: people search this output for words.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


_ENVELOPE_START = b"\xb1"
_SPACE = " \n\r\t"
_FIRST = (b"{", b" ", b"\n", b"\r", b"\t")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).raw_decode

SEVERITIES = {
    "trace": 1,
    "debug": 5,
    "info": 9,
    "warning": 13,
    "warn": 13,
    "error": 17,
    "critical": 21,
    "fatal": 21,
}  # fmt: skip
INFO, WARNING, ERROR = SEVERITIES["info"], SEVERITIES["warning"], SEVERITIES["error"]
SEVERITY_MAX = 24
_TIME_NS_MAX = 2**63 - 1


class Missing(enum.Enum):
    """The value of a field that an event does not have, as opposed to null."""

    MISSING = "missing"


MISSING = Missing.MISSING


def parse_severity(text: str) -> int:
    """Return the lowest severity of a level, given by its name or as a number from 1 to 24.  Raises: ValueError."""
    word = text.strip().lower()
    if word.isascii() and word.isdigit() and 1 <= int(word) <= SEVERITY_MAX:
        return int(word)
    try:
        return SEVERITIES[word]
    except KeyError:
        raise ValueError(
            f"not one of {', '.join(SEVERITIES)}, or a number from 1 to {SEVERITY_MAX}: {text!r}"
        ) from None


def parse_event(data: bytes) -> Event | None:
    """Return the event in a record, or None if the record is not a JSON object in UTF-8."""
    if data[:1] not in _FIRST:
        return None
    try:
        text = data.decode().strip(_SPACE)
        event, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and end == len(text) else None


def body_of(record: bytes) -> bytes:
    """Return a record; of a message with an envelope, its body."""
    # No text begins with this byte, so few records are parsed.
    return bytes(binlog.Message.parse(record).body) if record[:1] == _ENVELOPE_START else record


def severity_of(event: Event) -> int | None:
    """Return the severity of an event, or None if it has none from 1 to 24."""
    severity = event.get("severity")
    return severity if type(severity) is int and 1 <= severity <= SEVERITY_MAX else None


def time_ns_of(event: Event) -> int | None:
    """Return the event's own time, or None if it has none with a zone, from 1970 to 2262."""
    text = event.get("time")
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    time_ns = -1 if moment.tzinfo is None else moment_ns(moment)
    return time_ns if 0 <= time_ns <= _TIME_NS_MAX else None


def field_of(event: Event, name: str) -> Any:
    """Return the value of a field, or MISSING.

    name: a key of the event, of its attributes, or of an object in them: `order` is attributes.order, unless the event
    has a key `order`; `resource.service.name` is the key `service.name` of `resource`, for example.
    """
    value = _value_at(event, name)
    if value is MISSING and isinstance(attributes := event.get("attributes"), dict):
        return _value_at(attributes, name)
    return value


def text_of(value: Any) -> str:
    """Return a value as text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


def json_text(value: Any) -> str:
    """Return a value of an event as JSON; null if it cannot be written: 1e999, or lists nested to the limit."""
    try:
        return _encode(value)
    except (ValueError, RecursionError):
        return "null"


def _value_at(values: Event, name: str) -> Any:
    if name in values:
        return values[name]
    dot = name.find(".")
    while dot >= 0:
        below = values.get(name[:dot])
        if isinstance(below, dict) and (value := _value_at(below, name[dot + 1 :])) is not MISSING:
            return value
        dot = name.find(".", dot + 1)
    return MISSING
