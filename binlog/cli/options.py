"""Arguments and options that several commands share, and the parsers of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

import binlog
from binlog.cli.looking.times import parse_moment
from binlog.errors import AccessError, BinlogError

_KEY_BYTES_MAX = 1 << 12
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


# In quotes, because `binlog doctor` must run without the compiled modules.
_StartCallback = Callable[[click.Context, click.Parameter, str | None], "binlog.Ref | binlog.Start | None"]


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


def directory_argument(command: _Command) -> _Command:
    """Add DIR, the log's directory."""
    return click.argument("directory", metavar="DIR", type=DirectoryPath(), cls=DirectoryArgument)(command)


def directories_argument(command: _Command) -> _Command:
    """Add DIR..., the directories of one or more logs."""
    return click.argument(
        "directories", metavar="DIR...", nargs=-1, required=True, type=DirectoryPath(), cls=DirectoryArgument
    )(command)


class DirectoryPath(click.Path):
    """A path that a shell completes to directories.  It checks nothing, as `path_type` does not."""

    def __init__(self) -> None:
        super().__init__(readable=False, allow_dash=True)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="dir")]


class DirectoryArgument(click.Argument):
    """The first argument, DIR.  If a command gets fewer words than it needs, the variable BINLOG_DIR is DIR."""

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        directory = os.environ.get(DIRECTORY_VARIABLE)
        if directory and not ctx.resilient_parsing:
            assert isinstance(opts, dict)  # the words that the parser found; the next arguments take theirs from it too
            _insert(directory, [each for each in ctx.command.params if isinstance(each, click.Argument)], opts)
        return super().consume_value(ctx, opts)


DIRECTORY_VARIABLE = "BINLOG_DIR"


def _insert(directory: str, arguments: Sequence[click.Argument], opts: dict[str, Any]) -> None:
    """Put a directory before the words that the parser gave to the arguments, if they are too few."""
    words: list[str] = []
    for argument in arguments:
        value = opts.get(argument.name or "")
        words += value if isinstance(value, tuple) else [value] if isinstance(value, str) else []
    if len(words) >= sum(1 for argument in arguments if argument.required):
        return
    words.insert(0, directory)
    for argument in arguments:
        if argument.nargs == 1:
            opts[argument.name or ""] = words.pop(0) if words else None
        else:
            opts[argument.name or ""] = tuple(words)
            words = []


def complete_start(*starts: binlog.Start) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completion of positions: these names, and the first ref of each file."""

    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        refs = [str(binlog.Ref(file.number, file.first_offset)) for file in _files(context)]
        return [word for word in (*(start.value for start in starts), *refs) if word.startswith(begun)]

    return complete


def complete_file_number(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Complete the number of a file of the log in DIR."""
    return [str(file.number) for file in _files(context) if str(file.number).startswith(begun)]


def _files(context: click.Context) -> Sequence[binlog.FileStat]:
    # While a shell completes an option's value, the words before it are not distributed to the arguments yet.
    directory = next(iter(context.args), os.environ.get(DIRECTORY_VARIABLE))
    try:
        return binlog.stat(directory).files if directory else []
    except BinlogError:
        return []


def need_log(directory: str) -> None:
    """Raise NotFoundError if the directory holds no log, so that no command reports on, or creates, a mistyped one."""
    binlog.file_sizes(directory)


def read_key(text: str) -> str:
    """Return the public key that an option gives, as a text or as the path of a file.  Raises: AccessError."""
    if text.count("+") >= len("++"):
        return text
    try:
        with open(text, encoding="ascii", errors="replace") as file:
            return file.read(_KEY_BYTES_MAX).strip()
    except OSError as error:
        raise AccessError(f"{text}: {error.strerror}", errno=error.errno, path=text) from error


def path_type() -> click.Path:
    """Return a path type that checks nothing: opening the path reports the error, with its own exit code."""
    return click.Path(readable=False, allow_dash=True)


def positions_option(command: _Command) -> _Command:
    """Add --position, which names the position files of more followers."""
    return click.option(
        "--position",
        "positions",
        type=path_type(),
        multiple=True,
        metavar="FILE",
        help="Also show the follower that keeps its position in FILE ('binlog tail --position FILE'). Files named "
        "*.position in DIR are always shown. May be repeated.",
    )(command)


def json_option(text: str) -> Callable[[_Command], _Command]:
    """Add --json, with this help text.

    A new option of a command needs a test in the command's module in tests/unit/cli, and `make format-docs`, which
    writes docs/cli.md.  Print with `object_line`, which is safe for paths.  If --json prints texts of users, such as
    records and names of queues, add a row to JSON_CASES in tests/unit/cli/test_terminal.py.
    """
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
        help="Wait this long (5, 5s, 1m) for another program that holds the log's lock, then exit with 4. By default, "
        "wait forever.",
    )(command)


def file_system_option(command: _Command) -> _Command:
    """Add --file-system, which selects the file systems that may be written to."""
    return click.option(
        "--file-system",
        type=click.Choice([kind.value for kind in binlog.FileSystem]),
        default=binlog.FileSystem.LOCAL.value,
        show_default=True,
        help="'any' also allows NFS, CIFS and FUSE. Use it only if all programs that append run on this machine.",
    )(command)


def parse_since(text: str) -> binlog.Since:
    """Parse a time, as `parse_moment` does; UTC if it has no offset.  Raises: ValueError."""
    return binlog.Since(parse_moment(text, utc=True))


def retention_options(command: _Command) -> _Command:
    """Add the limits of retention: keep_bytes, keep_age and before."""
    keep_bytes = click.option(
        "--keep-bytes",
        callback=byte_count_from,
        metavar="BYTES",
        help="Keep at least this much of the newest data: 512, 10G, 1.5MiB.",
    )
    keep_age = click.option(
        "--keep-age",
        callback=seconds_from,
        metavar="TIME",
        help="Keep files closed less than this long ago: 90s, 15m, 12h, 30d, 2w.",
    )
    before = click.option(
        "--before", callback=ref_from, metavar="REF", help="Keep the file of this ref and all later files."
    )
    return keep_bytes(keep_age(before(command)))
