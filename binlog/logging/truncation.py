"""Cuts a record that is too long; a JSON object remains one."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from binlog.logging.rendering import json_text, to_bytes

RECORD_BYTES_MIN = 1024
"""The shortest limit: the fields that are never cut fit."""

_ATTRIBUTES = "attributes"
_STACKS = frozenset({"exception.stacktrace", "stack"})
_LENGTH_MIN = 16


def cut(data: bytes, bytes_max: int) -> bytes:
    """Return a record with at most this many bytes, and with its former length.

    In an event, the longest texts, lists and objects are cut, and `"truncated"` is the former length in bytes; a stack
    trace keeps its end.  Text that is no JSON object ends with the former length.
    """
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        return _cut_text(data, bytes_max)
    length = bytes_max
    while length >= _LENGTH_MIN:
        shorter = to_bytes(json_text(_shorter(event, length) | {"truncated": len(data)}))
        if len(shorter) <= bytes_max:
            return shorter
        length //= 2
    # Deep attributes, or long names of them.
    rest = {name: value for name, value in event.items() if name != _ATTRIBUTES}
    shorter = to_bytes(json_text(_shorter(rest, _LENGTH_MIN) | {"truncated": len(data)}))
    return shorter if len(shorter) <= bytes_max else _cut_text(data, bytes_max)


def _cut_text(data: bytes, bytes_max: int) -> bytes:
    end = b" [truncated: %d bytes]" % len(data)
    return data[: bytes_max - len(end)].decode("utf-8", "ignore").encode() + end


def _shorter(value: Any, length: int, *, keep_end: bool = False) -> Any:
    """Return a value with texts of at most this many characters, and lists and objects of at most this many members."""
    if isinstance(value, str):
        if len(value) <= length:
            return value
        return "..." + value[-length:] if keep_end else value[:length] + "..."
    if isinstance(value, list):
        return [_shorter(each, length) for each in value[:length]]
    if isinstance(value, dict):
        members = islice(value.items(), length)
        return {name: _shorter(each, length, keep_end=name in _STACKS) for name, each in members}
    return value
