"""`binlog web`: a page in the browser with the state of logs, and the records that a filter finds."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import ExitStack

import click

from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.options import directories_argument, need_log, path_type, positions_option
from binlog.cli.output import write_line
from binlog.errors import AccessError

_TOKEN_BYTES = 32
_FILE_BYTES_MAX = 1 << 10
_PORT_MAX = 65535


def _listen_from(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > _PORT_MAX:
        raise click.BadParameter(f"not HOST:PORT: {value!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


@click.command("web", short_help="Watch logs in a browser.")
@directories_argument
@click.option(
    "--port", type=click.IntRange(0, _PORT_MAX), metavar="PORT", help="The port on 127.0.0.1; a free one by default."
)
@click.option(
    "--listen",
    callback=_listen_from,
    metavar="HOST:PORT",
    help="Listen on an address other than 127.0.0.1. The connection is not encrypted: see the guide.",
)
@click.option(
    "--host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Also answer requests for this host name, such as that of a proxy. May be repeated.",
)
@click.option(
    "--token-file",
    type=path_type(),
    metavar="FILE",
    help="Use the token in FILE, which only its owner may read. It is made if it does not exist. The address is then "
    "printed without the token.",
)
@click.option(
    "--no-token",
    is_flag=True,
    help="Let every user and program on this machine read the logs and, without --read-only, change groups.",
)
@click.option("--read-only", is_flag=True, help="Refuse to retry or remove dead letters and to reset groups.")
@positions_option
def command(
    directories: tuple[str, ...],
    port: int | None,
    listen: tuple[str, int] | None,
    names: tuple[str, ...],
    token_file: str | None,
    no_token: bool,
    read_only: bool,
    positions: tuple[str, ...],
) -> None:
    """Show the log in each DIR in a browser, live: growth, files, followers, consumer groups, seal, and records.

    The command prints an address with a random token. Open the address: the token moves into a cookie, and the server
    refuses every request without the token. The page can retry and remove dead letters, and reset groups, with the
    permissions of the user who started the command. Ctrl-C ends the command.
    """
    if no_token and (listen or token_file):
        raise click.UsageError("--no-token cannot be used with --listen or --token-file")
    if listen and port is not None:
        raise click.UsageError("--port and --listen cannot be used together")
    with opening():
        for directory in directories:
            need_log(directory)
    try:
        import uvicorn  # noqa: F401
        import starlette  # noqa: F401  # isort: skip
    except ImportError as error:
        needs = f"'binlog web' needs the package {error.name}"
        text = f"{needs}; install binlog's extra 'web': pip install '.[web]' in a checkout"
        raise CommandError(text, ExitCode.FAILED) from error
    from binlog.cli.watching.web_log import WebLog
    from binlog.web import Address, Settings, serve

    token = None if no_token else secrets.token_urlsafe(_TOKEN_BYTES) if token_file is None else _token_in(token_file)
    settings = Settings(token=token, names=names, read_only=read_only)

    def started(url: str) -> None:
        write_line(url if token is None or token_file is not None else f"{url}?token={token}")

    with ExitStack() as undoing, opening():
        logs = []
        for directory in directories:
            logs.append(WebLog(directory, directory, positions if len(directories) == 1 else ()))
            undoing.callback(logs[-1].close)
        serve(logs, Address(*(listen or ("127.0.0.1", port or 0))), settings, started=started)


def _token_in(path: str) -> str:
    """Return the token in a file, and make the file if it does not exist.  Raises: CommandError; AccessError."""
    from binlog.web import check_token

    try:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                file.write(f"{token}\n")
            return token
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise CommandError(f"{path}: not a regular file", ExitCode.USAGE)
            if found.st_uid not in (0, os.geteuid()) or stat.S_IMODE(found.st_mode) & 0o077:
                text = f"{path}: other users may read or change the token; its mode must be 600, and its owner you"
                raise CommandError(text, ExitCode.USAGE)
            return check_token(file.read(_FILE_BYTES_MAX).decode("utf-8", "backslashreplace").strip())
    except ValueError as error:
        raise CommandError(f"{path}: {error}", ExitCode.USAGE) from error
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}", errno=error.errno, path=path) from error
