"""Turn exceptions, and the problems that a check found, into exit codes and lines."""

from __future__ import annotations

import enum
import errno
import os
import pwd
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

import binlog
from binlog.cli.output import printable, write_line
from binlog.cli.records import object_line
from binlog.errors import AccessError, BinlogError, BusyError, FullError


def advice(error: BaseException) -> str:
    """Return a hint to append to the error's message: the command to run as another user, or nothing."""
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
    """The exit codes.  Scripts rely on them; docs/operations.md and `binlog --help` list them."""

    OK = 0
    FAILED = 1  # the command found problems, or failed after it had started
    USAGE = 2
    CANNOT_OPEN = 3
    BUSY = 4


class CommandError(Exception):
    """An error that ends the command with a message and an exit code."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


class Signalled(BaseException):
    """A signal that ends the process after everything has been put back in order."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def opening() -> Iterator[None]:
    """Turn our errors into CommandError: the log cannot be opened, or an argument is wrong.

    BusyError and FullError pass through: they have other exit codes.
    """
    try:
        yield
    except (BusyError, FullError):
        raise
    except BinlogError as error:
        raise CommandError(f"{error}{advice(error)}", ExitCode.CANNOT_OPEN) from error
    except ValueError as error:
        raise CommandError(str(error).removeprefix("binlog: "), ExitCode.USAGE) from error


def run(action: Callable[[], object]) -> int:
    """Call `action`, report an error in one line, and return the exit code.

    If the action returns an ExitCode, that is the code; any other result means OK.  The caller handles a broken pipe
    and Ctrl-C.
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


def print_problems(problems: Sequence[binlog.Problem], *, as_json: bool) -> ExitCode:
    """Print each problem on a line of its own, and return the exit code of the command."""
    for problem in problems:
        write_line(object_line(problem._asdict()) if as_json else printable(str(problem)))
    if not problems and not as_json:
        write_line("no problems found")
    return ExitCode.FAILED if problems else ExitCode.OK


def print_error(message: str) -> None:
    """Write one line to standard error.  If that fails, ignore it: the exit code still reports the error."""
    line = f"binlog: {printable(' '.join(message.split()))}\n"
    try:
        sys.stderr.write(line)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return


def system_text(error: OSError) -> str:
    """Format a system error without its number: `name: No such file or directory`."""
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None)


def die_by_signal(number: signal.Signals) -> int:
    """Kill this process with a signal, as if it had never been caught."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number  # reached only if the signal is blocked


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise Signalled in a block, so that everything is put back in order before it ends the process."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Signalled(signal.Signals(number))

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _usage_text(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = error.format_message().rstrip(".")
    if context is None:
        return message
    command = context.command_path.removeprefix("binlog").strip()
    prefix = f"{command}: " if command else ""
    return f"{prefix}{message} (see '{context.command_path} --help')"
