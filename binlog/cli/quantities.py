"""Callbacks for options that take an amount of bytes or of time."""

from __future__ import annotations

import re

import click

_BYTES = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:([KMGTP])(?:iB)?|B)?", re.ASCII | re.IGNORECASE)
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|min|h|d|w)?", re.ASCII)
_SECONDS_OF = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES_MAX = 1 << 62
_SECONDS_MAX = 1e9


def byte_count_from(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """`512`, `10G`, `1.5MiB`: K, M, G, T and P stand for powers of 1024."""
    if value is None:
        return None
    match = _BYTES.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a number of bytes, such as 512, 10G or 1.5MiB")
    amount = float(match[1]) * 1024 ** (" KMGTP".index(match[2].upper()) if match[2] else 0)
    if amount > _BYTES_MAX:
        raise click.BadParameter(f"{value!r} is too much")
    return int(amount)


def seconds_from(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """`90`, `90s`, `15min`, `12h`, `30d`, `2w`."""
    if value is None:
        return None
    match = _SECONDS.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a time, such as 90s, 15min, 12h, 30d or 2w")
    seconds = float(match[1]) * _SECONDS_OF[match[2] or "s"]
    if seconds > _SECONDS_MAX:
        raise click.BadParameter(f"{value!r} is too long")
    return seconds
