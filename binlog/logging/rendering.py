"""Renders values of any kind as text and as JSON, and never fails.

A logging call must not fail because of the values in it.  So a `__str__` that raises becomes a text that names the
error, a value that JSON does not have becomes its `repr`, and a structure that contains itself ends if it repeats.
"""

from __future__ import annotations

import json
import logging
import math
import traceback
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

DEPTH_MAX = 16
"""How deep lists and mappings may be nested; a deeper one becomes its `repr`."""

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_INT_MAX = 1 << 63

quote: Callable[[str], str] = json.encoder.encode_basestring
"""Return a text as JSON, in quotes, with the escapes that JSON demands and no others."""

encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode
"""Return a value in the types of JSON as JSON, in one line; NaN is refused."""


def to_bytes(text: str) -> bytes:
    """Encode a text as UTF-8; a lone surrogate becomes `\\udc80`, which is also how JSON writes it."""
    return text.encode("utf-8", "backslashreplace")


def safe_text(value: object) -> str:
    """Return str(value), or a text that names the error if that raises."""
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - the caller's code may raise anything
        return _unprintable(value, error)


def safe_repr(value: object) -> str:
    """Return repr(value), or a text that names the error if that raises."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - the caller's code may raise anything
        return _unprintable(value, error)


def _unprintable(value: object, error: Exception) -> str:
    return f"<unprintable {type(value).__name__}: {type(error).__name__}>"


class _Printable:
    """Replaces an argument of a message, with texts that never fail."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return safe_text(self._value)

    def __repr__(self) -> str:
        return safe_repr(self._value)


def message_of(record: logging.LogRecord) -> str:
    """Return the message of a record, with its arguments."""
    if type(record) is not logging.LogRecord:  # a subclass may format in another way
        try:
            return safe_text(record.getMessage())
        except Exception:  # noqa: BLE001 - the arguments' code may raise anything
            pass
    message: object = record.msg
    text: str = message if type(message) is str else safe_text(message)
    args = record.args
    if not args:
        return text
    try:
        return text % args
    except Exception:  # noqa: BLE001 - the arguments' code may raise anything
        return _message_in_spite_of_errors(text, args)


def _message_in_spite_of_errors(text: str, args: object) -> str:
    safe: Any
    if isinstance(args, Mapping):
        safe = {key: _safe_argument(value) for key, value in args.items()}
    elif isinstance(args, list | tuple):
        safe = tuple(map(_safe_argument, args))
    else:
        safe = (_safe_argument(args),)
    try:
        return str(text % safe)
    except Exception:  # noqa: BLE001 - the arguments do not fit the text
        return f"{text} {safe_repr(safe)}"


def _safe_argument(value: object) -> object:
    return value if type(value) in (str, int, float) else _Printable(value)


def json_text(value: object) -> str:
    """Return a value as JSON in one line: a value that JSON does not have as its `repr`, NaN as null."""
    return encode(json_value(value))


def json_value(value: object, *, depth: int = DEPTH_MAX, above: tuple[int, ...] = ()) -> Any:
    """Return a value in the types of JSON.

    depth: how many levels of lists and mappings it may have.  above: the ids of the structures that contain it.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if isinstance(value, float):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, int):
        number = int(value)
        # Python refuses to print integers of thousands of digits.
        return number if -_INT_MAX < number < _INT_MAX else safe_repr(number)
    if isinstance(value, str):
        return str.__str__(value)
    if not isinstance(value, dict | list | tuple | Mapping) or depth == 0 or id(value) in above:
        return safe_repr(value)
    above = (*above, id(value))
    try:
        if isinstance(value, list | tuple):
            return [json_value(each, depth=depth - 1, above=above) for each in value]
        return {safe_text(key): json_value(value[key], depth=depth - 1, above=above) for key in value}
    except Exception:  # noqa: BLE001 - a mapping of the caller may raise anything
        return safe_repr(value)


def exception_fields(info: ExceptionInfo | BaseException) -> dict[str, str]:
    """Return the attributes that describe an exception: its type, message and stack trace."""
    if isinstance(info, BaseException):
        info = (type(info), info, info.__traceback__)
    kind, error, trace = info if isinstance(info, tuple) else (None, None, None)
    if kind is None or error is None:
        return {}
    try:
        stack = "".join(traceback.format_exception(kind, error, trace)).rstrip("\n")
    except Exception as failure:  # noqa: BLE001 - the exception's code may raise anything
        stack = _unprintable(error, failure)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return {"exception.type": name, "exception.message": safe_text(error), "exception.stacktrace": stack}
