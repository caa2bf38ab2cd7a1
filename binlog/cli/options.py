"""Arguments and options that several commands share, and the parsers of their values."""

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
_Command = TypeVar("_Command", bound=Callable[..., Any])


def byte_count_from(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Parse a size: `512`, `10G`, `10GB`, `1.5MiB`.  K, M, G, T and P are powers of 1024."""
    return _parsed(binlog.parse_bytes, value)


def seconds_from(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Parse a duration: `90`, `90s`, `5m` or `5min`, `12h`, `30d`, `2w`, `1h30m`."""
    return _parsed(binlog.parse_seconds, value)


def _parsed(parse: Callable[[str], _T], value: str | None) -> _T | None:
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


_Start = binlog.Ref | binlog.Start
_StartCallback = Callable[[click.Context, click.Parameter, str | None], _Start | None]


def start_from(*starts: binlog.Start) -> _StartCallback:
    """Return a callback for an option that takes a ref or one of these names of positions."""
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
    """Parse a ref."""
    try:
        return None if value is None else binlog.Ref.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def pattern_from(context: click.Context, parameter: click.Parameter, value: str | None) -> re.Pattern[bytes] | None:
    """Parse a regular expression that matches bytes."""
    try:
        # fsencode gives the bytes of the argument as they were passed, whatever the locale.
        return None if value is None else re.compile(os.fsencode(value))
    except re.error as error:
        raise click.BadParameter(f"not a regular expression: {error}") from error


def directory_argument(command: _Command) -> _Command:
    """Add DIR, the log's directory."""
    return click.argument("directory", metavar="DIR", type=path_type())(command)


def need_log(directory: str) -> None:
    """Raise NotFoundError if the directory holds no log, so that no command reports on, or creates, a mistyped one."""
    binlog.file_sizes(directory)


def path_type() -> click.Path:
    """Return a path type that checks nothing: opening the path reports the error, with its own exit code."""
    return click.Path(readable=False, allow_dash=True)


def json_option(text: str) -> Callable[[_Command], _Command]:
    """Add --json, with this help text."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def no_verify_option(command: _Command) -> _Command:
    """Add --no-verify, which reads damaged records as they are."""
    return click.option(
        "--no-verify",
        "verify",
        flag_value=False,
        default=True,
        help="Print damaged records as they are instead of stopping before them; do not compare with the index.",
    )(command)


def timeout_option(command: _Command) -> _Command:
    """Add --timeout, the longest wait for the lock."""
    return click.option(
        "--timeout",
        callback=seconds_from,
        metavar="TIME",
        help="Wait this long for another program that holds the log's lock, then exit with 4: 5, 5s, 1m. "
        "By default, wait forever.",
    )(command)


def file_system_option(command: _Command) -> _Command:
    """Add --file-system, which selects the file systems that may be written to."""
    return click.option(
        "--file-system",
        type=click.Choice([kind.value for kind in binlog.FileSystem]),
        default=binlog.FileSystem.LOCAL.value,
        show_default=True,
        help="'any' also writes to NFS, CIFS and FUSE. Use it only if all programs that append run on this machine.",
    )(command)


# A bare number is refused: it could be a year or a time ago.
_NUMBER = re.compile(r"[0-9.]+", re.ASCII)


def parse_since(text: str) -> binlog.Since:
    """Parse a time: `2025-01-31T12:00:00Z`, UTC if it has no offset; or `5m`, `2h ago`, `1.5d`, counted back from now.

    Raises: ValueError.
    """
    ago = text.strip().removesuffix("ago").rstrip()
    if not _NUMBER.fullmatch(ago):
        with suppress(ValueError):
            return binlog.Since(timedelta(seconds=binlog.parse_seconds(ago)))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"not a time such as 2025-01-31T12:00:00Z or 5m, 2h, 1d ago: {text!r}") from None
    return binlog.Since(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def since_option(command: _Command) -> _Command:
    """Add --since, the time to start at."""
    return click.option(
        "--since",
        metavar="TIME",
        callback=_since,
        help="Start with the records appended at this time or later: 2025-01-31T12:00:00Z (UTC if it has no offset), "
        "or 5m, 2h, 1d ago. Up to a second or 64 KiB of earlier records may come first.",
    )(command)


def _since(_: click.Context, __: click.Parameter, value: str | None) -> binlog.Since | None:
    try:
        return None if value is None else parse_since(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
