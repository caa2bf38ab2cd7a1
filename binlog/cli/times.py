"""Times as a person types them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

import binlog

_Command = TypeVar("_Command", bound=Callable[..., Any])

# A number alone would be a year to some, and a time ago to others.
_NUMBER = re.compile(r"[0-9.]+", re.ASCII)


def parse_since(text: str) -> binlog.Since:
    """`2025-01-31T12:00:00Z`, with any other offset, or without one for UTC; `5m`, `2h ago`, `1.5d` before now.

    Raises: ValueError.
    """
    ago = text.strip().removesuffix("ago").rstrip()
    if not _NUMBER.fullmatch(ago):
        with suppress(ValueError):
            return binlog.Since(timedelta(seconds=binlog.parse_seconds(ago)))
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
