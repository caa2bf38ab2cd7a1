"""Times as a person types them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

import binlog

_Command = TypeVar("_Command", bound=Callable[..., Any])

_AGO = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhdw])(?:\s+ago)?", re.ASCII)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_since(text: str) -> binlog.Since:
    """`2025-01-31T12:00:00Z`, with any other offset, or without one for UTC; `5m`, `2h ago`, `1.5d` before now.

    Raises: ValueError.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return binlog.Since(time.time() - float(ago[1]) * _UNIT_SECONDS[ago[2]])
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"not a time, as 2025-01-31T12:00:00Z or 5m, 2h, 1d ago: {text!r}") from None
    return binlog.Since(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def since_option(command: _Command) -> _Command:
    """--since, a time to start at."""
    return click.option(
        "--since",
        metavar="TIME",
        callback=_since,
        help="Start with what was appended then or later: 2025-01-31T12:00:00Z (without an offset, UTC), or 5m, 2h, 1d "
        "ago. Up to a second or 64 KiB of earlier records may come first.",
    )(command)


def _since(_: click.Context, __: click.Parameter, value: str | None) -> binlog.Since | None:
    try:
        return None if value is None else parse_since(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
