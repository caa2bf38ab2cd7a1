"""Arguments and options that several commands share, and their types."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

import binlog
from binlog.cli.quantities import seconds_from

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
