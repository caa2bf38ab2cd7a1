"""Callbacks for options that take an amount of bytes or of time, in the words that the API takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

import binlog

_T = TypeVar("_T")


def byte_count_from(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """`512`, `10G`, `10GB`, `1.5MiB`: K, M, G, T and P stand for powers of 1024."""
    return _parsed(binlog.parse_bytes, value)


def seconds_from(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """`90`, `90s`, `5m` or `5min`, `12h`, `30d`, `2w`, `1h30m`."""
    return _parsed(binlog.parse_seconds, value)


def _parsed(parse: Callable[[str], _T], value: str | None) -> _T | None:
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
