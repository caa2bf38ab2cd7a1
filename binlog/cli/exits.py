"""From errors to exit codes, and to one line on standard error.

Whom a command is to be run as, where its own user may not do it.
"""

from __future__ import annotations

import enum
import errno
import os
import pwd
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from binlog.cli.output import printable
from binlog.errors import AccessError, BinlogError, BusyError, FullError


def advice(error: BaseException) -> str:
    """Return the line that works, to follow the error's message; nothing if no other user is known to help."""
    user = _user(error)
    if user is None or os.geteuid() == 0:
        return ""
    command = shlex.join(["binlog", *sys.argv[1:]])
    return f"; try: sudo {command}" if user == "root" else f"; try: sudo -u {shlex.quote(user)} {command}"


def _user(error: BaseException) -> str | None:
    if not isinstance(error, AccessError):
        return None
    if error.run_as is not None or error.errno not in (errno.EACCES, errno.EPERM):
        return error.run_as
    try:
        owner = os.stat(error.filename).st_uid
    except (OSError, TypeError):
        return None
    if owner == os.geteuid():
        return None
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"#{owner}"


class ExitCode(enum.IntEnum):
    """What the process returns.  Scripts rely on these; docs/operations.md and `binlog --help` list them."""

    OK = 0
    FAILED = 1  # problems were found, or it went wrong after it had begun
    USAGE = 2
    CANNOT_OPEN = 3
    BUSY = 4


class CommandError(Exception):
    """Ends the command with a message and a code."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


class Signalled(BaseException):
    """A signal came that is to end the process, once everything was put back in order."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def opening() -> Iterator[None]:
    """Whatever of ours is raised here means that the log cannot be opened, or that a ref was a wrong one.

    Busy stays busy, and a full disk a failure: both pass.
    """
    try:
        yield
    except (BusyError, FullError):
        raise
    except BinlogError as error:
        raise CommandError(f"{error}{advice(error)}", ExitCode.CANNOT_OPEN) from error
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error


def run(action: Callable[[], object]) -> int:
    """Call `action`, report what went wrong in one line, and return the exit code.

    An action may return an ExitCode; anything else is OK.  A broken pipe and Ctrl-C are left to the caller.
    """
    try:
        result = action()
        return int(result) if isinstance(result, ExitCode) else ExitCode.OK
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        print_error(_usage_text(error))
        return ExitCode.USAGE
    except CommandError as error:
        print_error(str(error))
        return error.code
    except BinlogError as error:
        print_error(f"{error}{advice(error)}")
        return ExitCode.BUSY if isinstance(error, BusyError) else ExitCode.FAILED
    except BrokenPipeError:
        raise
    except OSError as error:
        print_error(system_text(error))
        return ExitCode.FAILED


def print_error(message: str) -> None:
    """One line on standard error.  Nowhere to write it is no reason to fail otherwise than we do."""
    line = f"binlog: {printable(' '.join(message.split()))}\n"
    try:
        sys.stderr.write(line)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return


def system_text(error: OSError) -> str:
    """`name: No such file or directory`, without the number."""
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None)


def die_by_signal(number: signal.Signals) -> int:
    """End the process by a signal, as if it had never been caught."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number  # only where the signal is blocked


def _usage_text(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = error.format_message().rstrip(".")
    if context is None:
        return message
    command = context.command_path.removeprefix("binlog").strip()
    where = f"{command}: " if command else ""
    return f"{where}{message} (see '{context.command_path} --help')"
