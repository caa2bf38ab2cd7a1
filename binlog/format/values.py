"""Option values that callers give as text: members of enums, bytes, seconds, records.

The API and the command line have one grammar: `10G`, `10GB` and `10GiB` are 10 * 1024**3 bytes; `90`, `90s`, `5m`,
`5min`, `1.5h` and `1h30m` are times.  The error for a text that is no member of an enum lists the members.
"""

from __future__ import annotations

import enum
import math
import re
from dataclasses import MISSING, fields
from datetime import timedelta
from typing import Any, TypeVar

_E = TypeVar("_E", bound=enum.Enum)

_BYTES = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:([KMGTP])(?:i?B)?|B)?", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|sec|s|min|m|h|d|w)", re.ASCII)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_UNIT_SECONDS = {"ms": 1e-3, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES_MAX = 1 << 62
_SECONDS_MAX = 1e9
_SECONDS_TEXT = "a time, such as 90s, 5m, 12h, 30d or 1h30m"


def parse_bytes(text: str) -> int:
    """Return the bytes that a text such as `512`, `10G`, `10GB` or `1.5MiB` says.  K, M, G, T and P are powers of 1024.

    Raises: ValueError.
    """
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a number of bytes, such as 512, 10G or 1.5MiB")
    amount = float(match[1]) * 1024 ** (" KMGTP".index(match[2].upper()) if match[2] else 0)
    if amount > _BYTES_MAX:
        raise ValueError(f"{text!r} is too much")
    return int(amount)


def parse_seconds(text: str) -> float:
    """Return the seconds that a text says: `90`, `90s`, `250ms`, `5m` or `5min`, `12h`, `30d`, `2w`, `1h30m`.

    Raises: ValueError.
    """
    if _NUMBER.fullmatch(text.strip()):
        seconds = float(text)
    else:
        parts = list(_TIME.finditer(text.strip()))
        if not parts or "".join(part[0] for part in parts) != text.strip():
            raise ValueError(f"{text!r} is not {_SECONDS_TEXT}")
        seconds = sum(float(part[1]) * _UNIT_SECONDS[part[2]] for part in parts)
    if seconds > _SECONDS_MAX:
        raise ValueError(f"{text!r} is too long")
    return seconds


def member(kind: type[_E], value: object, name: str) -> _E:
    """Return the member of an enum that `value` is or names.  Raises: TypeError, ValueError."""
    if isinstance(value, kind):
        return value
    words = {each.name.lower(): each for each in kind} | {
        each.value.lower(): each for each in kind if isinstance(each.value, str)
    }
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    wanted = ", ".join(repr(word) for word in words)
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"{name} is a {kind.__name__}, or one of {wanted}, not {value!r}")


def byte_count(value: object, name: str) -> int:
    """Return a number of bytes, given as an int or as a text such as `1G`.  Raises: TypeError, ValueError."""
    if isinstance(value, str):
        try:
            return parse_bytes(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number of bytes, or a text such as '1G', not {value!r}")
    return value


def seconds_of(value: object, name: str) -> float:
    """Return a time in seconds, also from a timedelta or a text such as `5m`.  Raises: TypeError, ValueError."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        try:
            return parse_seconds(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is seconds, a timedelta, or a text such as '5m', not {value!r}")
    if math.isnan(value):
        raise ValueError(f"{name} is seconds, not nan")
    return value


DURATION_MAX = 10**9
"""The longest time that an argument may be, in seconds: some 31 years."""


def duration_of(value: object, name: str) -> float:
    """Return a time in seconds, as `seconds_of`, from 0 to DURATION_MAX.  Raises: TypeError, ValueError."""
    seconds = seconds_of(value, name)
    if not 0 <= seconds <= DURATION_MAX:
        raise ValueError(f"{name} is 0 to {DURATION_MAX} seconds, not {value!r}")
    return seconds


def count_of(value: object, name: str, least: int, most: int) -> int:
    """Return a whole number within limits.  Raises: TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name} is {least} to {most}, not {value}")
    return value


def plain_bytes(record: object) -> bytes:
    """Return the bytes of a record that is given as another kind of buffer.  Raises: TypeError."""
    if isinstance(record, bytes | bytearray | memoryview):
        return memoryview(record).tobytes()
    if isinstance(record, str):
        raise TypeError("a record is bytes, not str; append text.encode()")
    try:
        return memoryview(record).tobytes()  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a record is bytes, a bytearray or a memoryview, not {type(record).__name__}") from None


def coerce_options(options: Any, **enums: type[enum.Enum]) -> None:
    """Replace texts by values in the fields of a frozen dataclass of options.

    A field whose default is a member of an enum, or that is in `enums`, becomes a member; *_bytes and *_bytes_max
    become bytes, *seconds a time.
    Raises: TypeError, ValueError.
    """
    for field in fields(options):
        value, name, default = getattr(options, field.name), field.name, field.default
        if value is None or (default is not MISSING and value is default):
            continue
        kind = enums.get(name) or (type(default) if isinstance(default, enum.Enum) else None)
        found: object = value
        if kind is not None:
            found = member(kind, value, name)
        elif name.endswith("seconds"):
            found = seconds_of(value, name)
        elif name.endswith(("_bytes", "_bytes_max")):
            found = byte_count(value, name)
        if found is not value:
            object.__setattr__(options, name, found)
