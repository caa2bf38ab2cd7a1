"""Parsers of option values, and the tables that name the options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Options = Mapping[str, tuple[str, Callable[[str, str], Any]]]
"""For each option by its name: the field that it sets, and the parser of its name and text."""

_RECORD_BYTES_FORMAT_MAX = 2**31 - 1

_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def reject_unknown(given: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise ValueError if an unknown option was given."""
    if given:
        names = ", ".join(map(repr, sorted(given)))
        raise ValueError(f"binlog: unknown option {names}; the options are path, {', '.join(known)}")


def parse_known(given: dict[str, str], options: Options, *known: str) -> dict[str, Any]:
    """Parse the options of a table, remove them from `given`, and return their values by field.

    given: the options, in lower case.  known: further options that exist.
    Raises: ValueError for an unknown option or a wrong value.
    """
    found: dict[str, Any] = {}
    for name, (field, parse) in options.items():
        text = given.pop(name.lower(), None)
        if text is not None:
            found[field] = parse(name, text)
    reject_unknown(given, (*options, *known))
    return found


def count(name: str, text: str) -> int:
    """Parse an integer of at least 1.  All parsers here raise ValueError."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"binlog: {name} must be an integer of at least 1, not {text!r}")
    return int(text)


def size(name: str, text: str) -> int:
    """Parse a size in bytes as Spark does: k is 1024."""
    parts = re.fullmatch(r"(\d+)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    found = 0 if parts is None else int(parts[1]) << _UNITS[parts[2]]
    if found < 1:
        raise ValueError(f"binlog: {name} must be a size such as 1048576, 64m or 1g, not {text!r}")
    return found


def record_bytes(name: str, text: str) -> int:
    """Parse the size of a record, capped at the format's limit."""
    return min(size(name, text), _RECORD_BYTES_FORMAT_MAX)


def boolean(name: str, text: str) -> bool:
    """Parse true or false."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"binlog: {name} must be true or false, not {text!r}")
    return text.strip().lower() == "true"


def permissive(name: str, text: str) -> bool:
    """Parse the mode: True if damage becomes a row, False if it is an error."""
    if text.strip().upper() not in ("FAILFAST", "PERMISSIVE"):
        raise ValueError(f"binlog: {name} must be FAILFAST or PERMISSIVE, not {text!r}")
    return text.strip().upper() == "PERMISSIVE"


def some_text(name: str, text: str) -> str:
    """Parse a text that must not be empty."""
    if not text.strip():
        raise ValueError(f"binlog: {name} must not be empty")
    return text.strip()
