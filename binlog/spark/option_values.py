"""What the text of an option stands for, and which options there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Options = Mapping[str, tuple[str, Callable[[str, str], Any]]]
"""By its name what an option is the value of, and what makes that of its name and its text."""

_RECORD_BYTES_FORMAT_MAX = 2**31 - 1

_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def reject_unknown(given: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise ValueError where options are left that nobody has taken."""
    if given:
        names = ", ".join(map(repr, sorted(given)))
        raise ValueError(f"binlog: there is no option {names}; there are path, {', '.join(known)}")


def parse_known(given: dict[str, str], options: Options, *known: str) -> dict[str, Any]:
    """What the options say, by their fields; each is taken out of those given, which are in lower case.

    known: more that there are.  Raises: ValueError where others are left, and as the options' functions.
    """
    found: dict[str, Any] = {}
    for name, (field, parse) in options.items():
        text = given.pop(name.lower(), None)
        if text is not None:
            found[field] = parse(name, text)
    reject_unknown(given, (*options, *known))
    return found


def count(name: str, text: str) -> int:
    """A whole number from 1 on.  Raises: ValueError, as all of these do."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"binlog: {name} is a whole number from 1 on, not {text!r}")
    return int(text)


def size(name: str, text: str) -> int:
    """Bytes, as Spark's own settings write sizes, in which k is 1024."""
    parts = re.fullmatch(r"(\d+)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    found = 0 if parts is None else int(parts[1]) << _UNITS[parts[2]]
    if found < 1:
        raise ValueError(f"binlog: {name} is a size such as 1048576, 64m or 1g, not {text!r}")
    return found


def record_bytes(name: str, text: str) -> int:
    """The size of a record."""
    return min(size(name, text), _RECORD_BYTES_FORMAT_MAX)


def boolean(name: str, text: str) -> bool:
    """Whether it is true."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"binlog: {name} is true or false, not {text!r}")
    return text.strip().lower() == "true"


def permissive(name: str, text: str) -> bool:
    """Whether damage becomes a row, or is an error."""
    if text.strip().upper() not in ("FAILFAST", "PERMISSIVE"):
        raise ValueError(f"binlog: {name} is FAILFAST or PERMISSIVE, not {text!r}")
    return text.strip().upper() == "PERMISSIVE"


def some_text(name: str, text: str) -> str:
    """A text that is not empty."""
    if not text.strip():
        raise ValueError(f"binlog: {name} is empty")
    return text.strip()
