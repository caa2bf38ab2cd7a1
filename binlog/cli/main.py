"""The entry point: find the subcommand, run it, and exit as a shell expects.

After a broken pipe or Ctrl-C the process kills itself with the signal that would have ended a C program.  A shell then
sees 141 or 130, as with `cat` and `tail`.  It stops its own loop on Ctrl-C only if the child died of SIGINT.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

import binlog
from binlog.cli.commands import COMPLETE_VARIABLE, Commands
from binlog.cli.exits import ExitCode, Signalled, die_by_signal, run
from binlog.cli.output import guard_standard_descriptors


@click.group(
    name="binlog",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""Exit codes: 0 success; 1 problems found, or the command failed after it had started; 2 wrong usage; 3 the
    log cannot be opened; 4 busy. A broken pipe gives 141 and Ctrl-C 130, as with other commands.""",
)
@click.version_option(binlog.__version__, prog_name="binlog", message="%(prog)s %(version)s")
def binlog_command() -> None:
    """A durable log that many processes share through a directory, without a server.

    DIR is the log's directory. It holds files 00000001.dat, 00000002.dat, and so on; the newest is open, the others are
    closed. Each record has a ref, such as 1:256: the number of its file, and its offset there in bytes. If the variable
    BINLOG_DIR is set, DIR may be left out, unless an optional argument follows it.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or with those of the process, and return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        guard_standard_descriptors()
        if (asked := os.environ.get(COMPLETE_VARIABLE)) is not None:
            # The script of `binlog completion` asks for the words that fit.
            return shell_complete(binlog_command, {}, "binlog", COMPLETE_VARIABLE, asked)
        return run(lambda: _dispatch(given))
    except KeyboardInterrupt:
        return die_by_signal(signal.SIGINT)
    except BrokenPipeError:
        return die_by_signal(signal.SIGPIPE)
    except Signalled as end:
        return die_by_signal(end.number)


def _dispatch(arguments: list[str]) -> object:
    if not arguments:
        with binlog_command.make_context("binlog", [], resilient_parsing=True) as context:
            click.echo(context.get_help(), err=True)
        return ExitCode.USAGE
    # Not click's own main(): it prints a line on Ctrl-C and exits with 1 on a broken pipe.
    with binlog_command.make_context("binlog", arguments) as context:
        return binlog_command.invoke(context)
