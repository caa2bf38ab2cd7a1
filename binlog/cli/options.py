"""Arguments and options that several commands share, and their types.

Callbacks for options that take an amount of bytes or of time, in the words that the API takes.

Times as a person types them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

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


_Command = TypeVar("_Command", bound=Callable[..., Any])


_Start = binlog.Ref | binlog.Start
_StartCallback = Callable[[click.Context, click.Parameter, str | None], _Start | None]


def start_from(*starts: binlog.Start) -> _StartCallback:
    """A callback for an option that takes a ref, or one of these words for a place."""
    words = {start.value: start for start in starts}

    def convert(
        context: click.Context, parameter: click.Parameter, value: str | None
    ) -> binlog.Ref | binlog.Start | None:
        if value is None:
            return None
        try:
            return words.get(value) or binlog.Ref.parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return convert


def ref_from(context: click.Context, parameter: click.Parameter, value: str | None) -> binlog.Ref | None:
    """A callback for an option that takes a ref."""
    try:
        return None if value is None else binlog.Ref.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def pattern_from(context: click.Context, parameter: click.Parameter, value: str | None) -> re.Pattern[bytes] | None:
    """A callback for an option that takes a regular expression for bytes."""
    try:
        # The argument's bytes as they were given, whatever the locale.
        return None if value is None else re.compile(os.fsencode(value))
    except re.error as error:
        raise click.BadParameter(f"not a regular expression: {error}") from error


def directory_argument(command: _Command) -> _Command:
    """DIR, the log's directory."""
    return click.argument("directory", metavar="DIR", type=path_type())(command)


def need_log(directory: str) -> None:
    """Raise NotFoundError if the directory holds no log: no command reports on nothing, or makes what was mistyped."""
    binlog.file_sizes(directory)


def path_type() -> click.Path:
    """A path of which click checks nothing: whoever opens it tells what is wrong, with an exit code of its own."""
    return click.Path(readable=False, allow_dash=True)


def json_option(text: str) -> Callable[[_Command], _Command]:
    """--json, with a text that says what it prints."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def no_verify_option(command: _Command) -> _Command:
    """--no-verify, to read what is there."""
    return click.option(
        "--no-verify",
        "verify",
        flag_value=False,
        default=True,
        help="Read damaged records as they are, in place of an error before them, and compare nothing with the index.",
    )(command)


def timeout_option(command: _Command) -> _Command:
    """--timeout, how long to wait for the lock."""
    return click.option(
        "--timeout",
        callback=seconds_from,
        metavar="TIME",
        help="How long to wait for another program that holds the log's lock; then exit with 4: 5, 5s, 1m. "
        "Without it, wait for ever.",
    )(command)


def file_system_option(command: _Command) -> _Command:
    """--file-system, which file systems to write to."""
    return click.option(
        "--file-system",
        type=click.Choice([kind.value for kind in binlog.FileSystem]),
        default=binlog.FileSystem.LOCAL.value,
        show_default=True,
        help="'any' writes to NFS, CIFS and FUSE too: only where all programs that append run on this one machine.",
    )(command)


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
